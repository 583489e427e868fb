package decide_test

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
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
	h, err := s.Acquire(&driver.Request{Name: "n", Token: driver.TokenOf(token), TTL: lease, Shared: shared}, now)
	if err != nil {
		t.Fatalf("Acquire of %s: %v", token, err)
	}
	return h
}

// A row is a row of the table in the package's comment.
type row struct {
	has     string
	state   func(t *testing.T) *decide.State
	after   int   // the second at which the methods are called
	acquire error // nil: granted
	extend  error
	convert error
	release driver.Outcome
}

func (row row) check(t *testing.T) {
	if line := tableOfTheComment(t)[row.has]; line == "" || !strings.Contains(strings.ToLower(line), row.release.String()) {
		t.Errorf("the table in the comment has for %q: %q, want %v", row.has, line, row.release)
	}
	r, now := driver.Request{Name: "n", Token: driver.TokenOf("a"), TTL: lease}, at(row.after)
	fresh := func() *decide.State {
		s := row.state(t)
		s.Trim(now)
		return s
	}
	s := fresh()
	if h, err := s.Acquire(&r, now); !errors.Is(err, row.acquire) {
		t.Errorf("%s: Acquire: %v, want %v", row.has, err, row.acquire)
	} else if err == nil && (h.Reserved || h.Until.Sub(now.At) != lease) {
		t.Errorf("%s: Acquire: %+v", row.has, h)
	}
	if _, err := fresh().Extend("a", lease, now); !errors.Is(err, row.extend) {
		t.Errorf("%s: Extend: %v, want %v", row.has, err, row.extend)
	}
	if _, _, err := fresh().Convert(&r, now); !errors.Is(err, row.convert) {
		t.Errorf("%s: Convert: %v, want %v", row.has, err, row.convert)
	}
	if out := fresh().Release("a", 0, now); out != row.release {
		t.Errorf("%s: Release: %v, want %v", row.has, out, row.release)
	}
}

// tableOfTheComment returns the rows of the table in the package's comment, by what the token has.
func tableOfTheComment(t *testing.T) map[string]string {
	text, err := os.ReadFile("decide.go")
	if err != nil {
		t.Fatal(err)
	}
	rows, has, rest := map[string]string{}, "", ""
	for line := range strings.Lines(string(text)) {
		cells, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		if !ok {
			if has != "" {
				break
			}
			continue
		}
		key, more := strings.TrimSpace(cells[:min(21, len(cells))]), cells[min(21, len(cells)):]
		if strings.HasPrefix(cells, " ") { // the row goes on
			delete(rows, has)
			key, more = has+" "+key, rest+more
		}
		has, rest = key, more
		rows[has] = rest
	}
	return rows
}

// The rows of the table in the package's comment.
func TestTable(t *testing.T) {
	for _, row := range []row{
		{"a live hold", func(t *testing.T) *decide.State {
			s := &decide.State{}
			must(t, s, "a", false, at(1))
			return s
		}, 1, nil, nil, nil, driver.OutcomeReleased},
		{"a lapsed hold, nobody came since", func(t *testing.T) *decide.State {
			s := &decide.State{}
			must(t, s, "a", false, at(1))
			return s
		}, 12, nil, driver.ErrExpired, driver.ErrExpired, driver.OutcomeExpired},
		{"a lapsed hold, somebody came since", func(t *testing.T) *decide.State {
			s := &decide.State{}
			must(t, s, "a", true, at(1))
			must(t, s, "b", false, at(12))
			return s
		}, 30, nil, driver.ErrLost, driver.ErrLost, driver.OutcomeTaken},
		{"been taken away", func(t *testing.T) *decide.State {
			s := &decide.State{}
			must(t, s, "a", false, at(1))
			if _, err := s.Break(s.Fence, at(2)); err != nil {
				t.Fatal(err)
			}
			return s
		}, 3, nil, driver.ErrLost, driver.ErrLost, driver.OutcomeTaken},
		{"been released without a hold", func(t *testing.T) *decide.State {
			s := &decide.State{}
			s.Release("a", 0, at(1))
			return s
		}, 2, driver.ErrLost, driver.ErrLost, driver.ErrLost, driver.OutcomeGone},
		{"nothing", func(t *testing.T) *decide.State {
			return &decide.State{}
		}, 1, nil, driver.ErrLost, driver.ErrLost, driver.OutcomeGone},
	} {
		row.check(t)
	}
}

// reserved returns a state in which the name is reserved for a since the first second.
func reserved(t *testing.T) *decide.State {
	t.Helper()
	s := &decide.State{}
	if _, err := s.Reserve(&driver.Request{Name: "n", Token: driver.TokenOf("a")}, at(1)); err != nil {
		t.Fatal(err)
	}
	return s
}

func raised(s *decide.State) bool {
	changed, err := s.RaiseFence("a", 1<<40, at(1))
	return changed || err == nil
}

// The rows of the table for reservations. A reservation keeps others out, and none of them learns
// that it was lost.
func TestReservations(t *testing.T) {
	came := func(t *testing.T) *decide.State {
		s := reserved(t)
		must(t, s, "b", true, at(2))
		return s
	}
	for _, row := range []row{
		{"a live reservation", reserved, 1, nil, driver.ErrLost, driver.ErrLost, driver.OutcomeReleased},
		{"a lapsed one", reserved, 2, nil, driver.ErrLost, driver.ErrLost, driver.OutcomeGone},
		{"a lapsed one", came, 13, nil, driver.ErrLost, driver.ErrLost, driver.OutcomeGone},
	} {
		row.check(t)
	}
	s := reserved(t)
	if s.Idle(at(1)) || !s.Excludes("b", true, at(1)) || raised(s) {
		t.Errorf("%+v excludes nobody, or can be raised", s)
	}
	if _, err := s.Acquire(&driver.Request{Name: "n", Token: driver.TokenOf("b"), Replaces: driver.TokenOf("a"), TTL: lease}, at(1)); !errors.Is(err, driver.ErrLost) {
		t.Errorf("a reservation is replaced: %v", err)
	}
	if s.Trim(at(-3600)); s.Holds[0].Until.Sub(at(-3600).At) > driver.MaxReservation {
		t.Error("after the clock was set back, a reservation lasts for an hour")
	}
}

// A lease is never shorter than asked, even if that is no whole number of microseconds.
func TestNoLeaseIsTooShort(t *testing.T) {
	for slack, want := range map[time.Duration]time.Duration{0: lease + time.Microsecond, 999: lease + time.Microsecond, 1000: lease + 2*time.Microsecond} {
		now := at(1)
		now.Slack = slack
		h, err := (&decide.State{}).Acquire(&driver.Request{Name: "n", Token: driver.TokenOf("a"), TTL: lease + 1}, now)
		if err != nil || h.Until.Sub(now.At) != want {
			t.Errorf("with a slack of %v the lease lasts for %v, want %v", slack, h.Until.Sub(now.At), want)
		}
	}
}

// A token that is not first in the queue of its store is refused a free name. A token that has the
// name keeps it.
func TestTurn(t *testing.T) {
	s := &decide.State{}
	try := func(token, replaces string, want error) {
		t.Helper()
		r := driver.Request{Name: "n", Token: driver.TokenOf(token), Replaces: driver.TokenOf(replaces), TTL: lease}
		if _, err := s.AcquireInTurn(&r, false, at(1)); !errors.Is(err, want) {
			t.Errorf("%s, which replaces %q: %v, want %v", token, replaces, err, want)
		}
	}
	try("a", "", driver.ErrHeld)
	must(t, s, "a", false, at(1))
	try("a", "", nil)
	try("b", "a", nil)
	s.Release("c", 0, at(1))
	try("c", "", driver.ErrLost)
}

// A token whose own lease ended, and which then replaces another, has one hold.
func TestLapsedTokenReplaces(t *testing.T) {
	s := &decide.State{}
	must(t, s, "a", true, at(1))
	must(t, s, "b", true, at(9))
	if _, err := s.Acquire(&driver.Request{Name: "n", Token: driver.TokenOf("a"), Replaces: driver.TokenOf("b"), TTL: lease}, at(12)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Extend("a", lease, at(13)); err != nil || len(s.Holds) != 1 {
		t.Errorf("Extend: %v, with the holds %+v", err, s.Holds)
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
	if len(s.Taken) > 16 || len(s.Spent) > 4 || len(s.Holds) != 1 {
		t.Errorf("%d taken, %d spent, %d holds", len(s.Taken), len(s.Spent), len(s.Holds))
	}
	for i := range 100 { // within a minute, as many waits that are given up do
		s.Release("v"+strconv.Itoa(i), 0, at(2000))
	}
	if n := len(s.Spent); n != 16 || s.Spent[n-1].Token != "v99" {
		t.Errorf("%d spent tokens: %+v", n, s.Spent)
	}
	s = &decide.State{}
	must(t, s, "a", true, at(1000))
	must(t, s, "b", true, at(1000))
	r := driver.Request{Name: "n", Token: driver.TokenOf("a"), TTL: lease}
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

// A token whose hold was taken away gets the name again. What its Release then finds is the new hold,
// and a second Release finds nothing.
func TestTakenEndsWithANewHold(t *testing.T) {
	for _, shared := range []bool{false, true} {
		var s decide.State
		must(t, &s, "a", shared, at(0))
		if _, err := s.Break(s.Fence, at(0)); err != nil {
			t.Fatal(err)
		}
		must(t, &s, "a", shared, at(1))
		first, second := s.Release("a", 0, at(2)), s.Release("a", 0, at(3))
		if first != driver.OutcomeReleased || second != driver.OutcomeGone {
			t.Errorf("shared %v: Release of a hold after one that was broken: %v, then %v; want released, gone", shared, first, second)
		}
	}
}

// A process whose clock is ahead sees that the lease of a reader has ended, and promotes the other
// reader. By a clock that is behind, the lease still lasts, but the name is taken.
func TestPromotionBetweenTwoClocks(t *testing.T) {
	s := &decide.State{}
	must(t, s, "a", true, at(1))
	must(t, s, "b", true, at(9))
	ahead, behind := at(12), at(10)
	if _, _, err := s.Convert(&driver.Request{Name: "n", Token: driver.TokenOf("b"), TTL: lease}, ahead); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Acquire(&driver.Request{Name: "n", Token: driver.TokenOf("a"), TTL: lease, Shared: true}, behind); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("the reader is granted %+v beside the writer: %v", h, err)
	}
	if _, err := s.Extend("a", lease, behind); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend of the reader: %v", err)
	}
}

// Fences below driver.MaxFence are used up, and the state stays as it was.
func TestFencesUsedUp(t *testing.T) {
	s := &decide.State{Fence: driver.MaxFence - 1}
	if _, err := s.Acquire(&driver.Request{Name: "n", Token: driver.TokenOf("a"), TTL: lease}, at(1)); !errors.Is(err, driver.ErrFencesUsedUp) {
		t.Errorf("Acquire: %v", err)
	}
	if _, err := s.Break(s.Fence, at(1)); !errors.Is(err, driver.ErrFencesUsedUp) || s.Fence != driver.MaxFence-1 || len(s.Holds) > 0 {
		t.Errorf("Break: %v, %+v", err, s)
	}
}
