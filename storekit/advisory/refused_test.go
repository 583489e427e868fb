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
		if out, err := s.Release(t.Context(), r.Name, r.Token, 0); out != driver.OutcomeReleased || err != nil {
			t.Errorf("Release: %v, %v", out, err)
		}
	}
}

// The server refuses a reader that joins another one in a session. Nobody knows whether the session
// has the lock once more. The other reader keeps its lock, and no lock stays when all have released
// theirs.
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
		for i, r := range rs {
			other := openCounter(&counter{srv: d.srv})
			if _, err := other.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("late %v: a writer, next to %d readers: %v", late, 4-i, err)
			}
			other.Close()
			if _, err := s.Extend(t.Context(), "job", r.Token, 0); err != nil {
				t.Errorf("late %v: a reader has lost its lock: %v", late, err)
			}
			releaseAll(t, s, r)
		}
		if d.srv.locked("job") {
			t.Errorf("late %v: a lock stays", late)
		}
		if left := advisory.Leftovers(s.inner); left != "" {
			t.Errorf("late %v: %s", late, left)
		}
		s.Close()
	}
}

// The server refuses many readers that join others. They do not count as holds, so the store has
// room for another lock.
func TestManyRefusedReaders(t *testing.T) {
	d := &counter{srv: newCounting()}
	s, rs := readers(t, d)
	defer s.Close()
	for range 100 {
		d.after = at("try")
		if _, err := s.Acquire(t.Context(), sharedRequest("job")); !errors.Is(err, errRefused) {
			t.Fatalf("a reader that joins: %v", err)
		}
	}
	other := request("other")
	if _, err := s.Acquire(t.Context(), other); err != nil {
		t.Errorf("another lock: %v", err)
	}
	releaseAll(t, s, append(rs, other)...)
	if d.srv.locked("job") {
		t.Error("a lock stays")
	}
	if left := advisory.Leftovers(s.inner); left != "" {
		t.Error(left)
	}
}

// A reader can be promoted after another reader of its session was refused.
func TestPromotionAfterARefusedReader(t *testing.T) {
	d := &counter{srv: newCounting()}
	s, rs := readers(t, d)
	defer s.Close()
	joined := sharedRequest("job")
	d.after = at("try")
	if _, err := s.Acquire(t.Context(), joined); !errors.Is(err, errRefused) {
		t.Fatalf("the reader that joins: %v", err)
	}
	releaseAll(t, s, rs[1:]...)
	r := rs[0]
	r.Shared = false
	if _, err := s.Convert(t.Context(), r); err != nil {
		t.Fatalf("promotion: %v", err)
	}
	releaseAll(t, s, r)
	if d.srv.locked("job") {
		t.Error("a lock stays")
	}
}

// The server refuses to release a lock. The other holds of the connection stay, and the lock is
// released all the same.
func TestRefusedRelease(t *testing.T) {
	for _, late := range []bool{false, true} {
		d := &counter{srv: newCounting()}
		s := openCounter(d)
		r, other := request("job"), request("other")
		for _, r := range []driver.Request{r, other} {
			if _, err := s.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if d.before = at("unlock"); late {
			d.before, d.after = nil, at("unlock")
		}
		releaseAll(t, s, r)
		if d.srv.locked("job") {
			t.Errorf("late %v: the lock stays", late)
		}
		if _, err := s.Extend(t.Context(), "other", other.Token, 0); err != nil {
			t.Errorf("late %v: another hold of the connection: %v", late, err)
		}
		s.Close()
	}
}

// The server refuses to release an intent. No intent stays, which would keep new readers out.
func TestRefusedWithdrawal(t *testing.T) {
	for _, late := range []bool{false, true} {
		d := &counter{srv: newCounting()}
		s, rs := readers(t, d)
		r := rs[0]
		r.Shared = false
		if _, err := s.Convert(t.Context(), r); !errors.Is(err, driver.ErrHeld) {
			t.Fatalf("promotion next to other readers: %v", err)
		}
		if d.before = at("withdraw"); late {
			d.before, d.after = nil, at("withdraw")
		}
		if _, err := s.Convert(t.Context(), rs[0]); err != nil {
			t.Errorf("late %v: withdrawal: %v", late, err)
		}
		if d.srv.locked("intent job") {
			t.Errorf("late %v: the intent stays", late)
		}
		s.Close()
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
		go s.Extend(t.Context(), r.Name, r.Token, 0)
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
