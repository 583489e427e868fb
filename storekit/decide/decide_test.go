package decide_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

const lease = 10 * time.Second

func at(seconds int) decide.Now {
	return decide.Now{At: decide.Time(seconds) * 1e6, Wall: int64(seconds) * 1e6}
}

func must(t *testing.T, s *decide.State, token string, shared bool, now decide.Now) *decide.Hold {
	t.Helper()
	s.Trim(now)
	h, err := s.Acquire(&driver.Request{Name: "n", Token: token, TTL: lease, Shared: shared}, now)
	if err != nil {
		t.Fatalf("Acquire of %s: %v", token, err)
	}
	return h
}

// The rows of the table in the package's comment.
func TestTable(t *testing.T) {
	for _, row := range []struct {
		has     string
		state   func(t *testing.T) (*decide.State, decide.Now)
		acquire error // nil: granted
		extend  error
		convert error
		release driver.Outcome
	}{
		{"a live hold", func(t *testing.T) (*decide.State, decide.Now) {
			s := &decide.State{}
			must(t, s, "a", false, at(1))
			return s, at(2)
		}, nil, nil, nil, driver.Released},
		{"a lapsed hold, nobody came", func(t *testing.T) (*decide.State, decide.Now) {
			s := &decide.State{}
			must(t, s, "a", false, at(1))
			return s, at(12)
		}, nil, driver.ErrExpired, driver.ErrExpired, driver.Expired},
		{"a lapsed hold, somebody came", func(t *testing.T) (*decide.State, decide.Now) {
			s := &decide.State{}
			must(t, s, "a", true, at(1))
			must(t, s, "b", false, at(12))
			return s, at(30)
		}, nil, driver.ErrLost, driver.ErrLost, driver.Taken},
		{"been broken", func(t *testing.T) (*decide.State, decide.Now) {
			s := &decide.State{}
			must(t, s, "a", false, at(1))
			if _, err := s.Break(s.Fence, at(2)); err != nil {
				t.Fatal(err)
			}
			return s, at(3)
		}, nil, driver.ErrLost, driver.ErrLost, driver.Taken},
		{"been released without a hold", func(t *testing.T) (*decide.State, decide.Now) {
			s := &decide.State{}
			s.Release("a", 0, at(1))
			return s, at(2)
		}, driver.ErrLost, driver.ErrLost, driver.ErrLost, driver.Gone},
		{"nothing", func(t *testing.T) (*decide.State, decide.Now) {
			return &decide.State{}, at(1)
		}, nil, driver.ErrLost, driver.ErrLost, driver.Gone},
	} {
		r := driver.Request{Name: "n", Token: "a", TTL: lease}
		s, now := row.state(t)
		s.Trim(now)
		if _, err := s.Acquire(&r, now); !errors.Is(err, row.acquire) {
			t.Errorf("%s: Acquire: %v, want %v", row.has, err, row.acquire)
		}
		s, now = row.state(t)
		if _, err := s.Extend("a", lease, now); !errors.Is(err, row.extend) {
			t.Errorf("%s: Extend: %v, want %v", row.has, err, row.extend)
		}
		s, now = row.state(t)
		if _, _, err := s.Convert(&r, now); !errors.Is(err, row.convert) {
			t.Errorf("%s: Convert: %v, want %v", row.has, err, row.convert)
		}
		s, now = row.state(t)
		if out, _ := s.Release("a", 0, now); out != row.release {
			t.Errorf("%s: Release: %v, want %v", row.has, out, row.release)
		}
	}
}

// A state does not grow without end: lists of tokens are bounded, and an intent and spent tokens
// end even if the clock was set back.
func TestBounds(t *testing.T) {
	s := &decide.State{}
	for i := range 100 {
		must(t, s, "t"+strconv.Itoa(i), false, at(1+20*i))
		s.Release("u"+strconv.Itoa(i), 0, at(1+20*i))
	}
	if len(s.Taken) > 16 || len(s.Spent) > 16 || len(s.Holds) != 1 {
		t.Errorf("%d taken, %d spent, %d holds", len(s.Taken), len(s.Spent), len(s.Holds))
	}
	s = &decide.State{}
	must(t, s, "a", true, at(1000))
	must(t, s, "b", true, at(1000))
	r := driver.Request{Name: "n", Token: "a", TTL: lease}
	if _, changed, err := s.Convert(&r, at(1000)); !changed || !errors.Is(err, driver.ErrHeld) {
		t.Fatalf("Convert while another reader holds: %v, %v", changed, err)
	}
	s.Release("nobody", 0, at(1000))
	s.Trim(at(1)) // the clock was set back
	if end := s.Intent.Until.Sub(at(1).At); end > driver.MaxIntent {
		t.Errorf("the intent lasts for %v", end)
	}
	if i := slices.IndexFunc(s.Spent, func(p decide.Spent) bool { return p.Until.Sub(at(1).At) > time.Minute }); i >= 0 {
		t.Errorf("a spent token lasts until %v", s.Spent[i].Until)
	}
}

// Fences below driver.MaxFence are used up, and the state stays as it was.
func TestFencesUsedUp(t *testing.T) {
	s := &decide.State{Fence: driver.MaxFence - 1}
	if _, err := s.Acquire(&driver.Request{Name: "n", Token: "a", TTL: lease}, at(1)); !errors.Is(err, driver.ErrFencesUsedUp) {
		t.Errorf("Acquire: %v", err)
	}
	if _, err := s.Break(s.Fence, at(1)); !errors.Is(err, driver.ErrFencesUsedUp) || s.Fence != driver.MaxFence-1 || len(s.Holds) > 0 {
		t.Errorf("Break: %v, %+v", err, s)
	}
}
