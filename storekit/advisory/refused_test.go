package advisory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// readers makes a store with a reader of the name "job" in each of its four sessions for holds. The
// next reader joins one of these sessions.
func readers(t *testing.T, d *counter) (s counterStore, rs []driver.Request) {
	s = openCounter(d)
	for range 4 {
		rs = append(rs, sharedRequest("job"))
		if _, err := s.Acquire(t.Context(), rs[len(rs)-1]); err != nil {
			t.Fatal(err)
		}
	}
	return s, rs
}

func sharedRequest(name string) driver.Request {
	r := request(name)
	r.Shared = true
	return r
}

// at makes a function for counter.before or counter.after, which refuses one statement.
func at(what string) func(*counted, string) error {
	return func(_ *counted, is string) error {
		if is != what {
			return nil
		}
		what = "none"
		return errRefused
	}
}

func releaseAll(t *testing.T, s counterStore, rs ...driver.Request) {
	t.Helper()
	for _, r := range rs {
		if out, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeReleased || err != nil {
			t.Errorf("Release: %v, %v", out, err)
		}
	}
}

// The server refuses a reader that joins another one in a session. Nobody knows whether the session
// has the lock once more, so its connection ends. The other readers keep their locks, and no lock
// stays when all have released theirs.
func TestRefusedReader(t *testing.T) {
	for _, late := range []bool{false, true} {
		d := &counter{srv: newCounting()}
		s, rs := readers(t, d)
		if d.before = at("try"); late {
			d.before, d.after = nil, at("try")
		}
		if _, err := s.Acquire(t.Context(), sharedRequest("job")); !errors.Is(err, errRefused) {
			t.Fatalf("the reader that joins: %v", err)
		}
		var live []driver.Request
		for _, r := range rs {
			if _, err := s.Extend(t.Context(), "job", r.Token.Text(), 0); err == nil {
				live = append(live, r)
			} else {
				s.releaseSurely(r)
			}
		}
		if len(live) != len(rs)-1 {
			t.Errorf("late %v: %d of %d readers have their lock", late, len(live), len(rs))
		}
		releaseAll(t, s, live...)
		if d.srv.locked("job") {
			t.Errorf("late %v: a lock stays", late)
		}
		if left := advisory.Leftovers(s.inner); left != "" {
			t.Errorf("late %v: %s", late, left)
		}
		s.Close()
	}
}

// The server refuses a lock that it may have granted, or refuses to take back a lock or an intent.
// No lock stays. A refused release is uncertain until it is repeated.
func TestRefusals(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, what := range []string{"try", "unlock", "withdraw"} {
			d := &counter{srv: newCounting()}
			s := openCounter(d)
			refuse := func() {
				if d.before = at(what); late {
					d.before, d.after = nil, at(what)
				}
			}
			r := sharedRequest("job")
			if what == "try" {
				refuse()
			}
			if _, err := s.Acquire(t.Context(), r); errors.Is(err, errRefused) != (what == "try") {
				t.Errorf("%s, late %v: Acquire: %v", what, late, err)
			}
			if what == "withdraw" {
				other := sharedRequest("job")
				if _, err := s.Acquire(t.Context(), other); err != nil {
					t.Fatal(err)
				}
				r.Shared = false
				if _, err := s.Convert(t.Context(), r); !errors.Is(err, driver.ErrHeld) {
					t.Fatalf("promotion next to another reader: %v", err)
				}
				releaseAll(t, s, other)
			}
			if what != "try" {
				refuse()
				if _, err := s.Release(t.Context(), "job", r.Token.Text(), 0); !errors.Is(err, driver.ErrUncertain) {
					t.Errorf("%s, late %v: Release: %v", what, late, err)
				}
				s.releaseSurely(r)
			}
			if d.srv.locked("job") || d.srv.locked("intent job") {
				t.Errorf("%s, late %v: a lock stays", what, late)
			}
			if left := advisory.Leftovers(s.inner); left != "" {
				t.Errorf("%s, late %v: %s", what, late, left)
			}
			s.Close()
		}
	}
}

// A reader renews its intent just before the intent ends, while the store is busy with the hold.
// The intent stays.
func TestIntentRenewedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &counter{srv: newCounting()}
		s, rs := readers(t, d)
		defer s.Close()
		r := rs[0]
		r.Shared = false
		promote := func() {
			if _, err := s.Convert(t.Context(), r); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("promotion next to other readers: %v", err)
			}
		}
		promote()
		lapse := driver.MaxIntent * 9 / 10
		d.before = func(_ *counted, what string) error {
			if what == "verify" {
				<-time.After(lapse + time.Millisecond)
			}
			return nil
		}
		go s.Extend(t.Context(), r.Name, r.Token.Text(), 0)
		<-time.After(lapse - time.Millisecond)
		promote()
		synctest.Wait()
		if !d.srv.locked("intent job") {
			t.Error("the intent was withdrawn as soon as it was renewed")
		}
		<-time.After(lapse)
		synctest.Wait()
		if d.srv.locked("intent job") {
			t.Error("an intent that is not renewed stays")
		}
	})
}
