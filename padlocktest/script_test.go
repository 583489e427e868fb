package padlocktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/padlocktest"
)

func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		h, err := l.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		other, err := l.Acquire(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		ctx, start := h.Context(), time.Now()
		script.Lose("job")
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), padlock.ErrLost) || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), context.Cause(ctx))
		}
		if err := h.Check(t.Context()); !errors.Is(err, padlock.ErrLost) {
			t.Errorf("Check says %v", err)
		}
		if err := h.Release(); !errors.Is(err, padlock.ErrLost) {
			t.Errorf("Release says %v", err)
		}
		<-time.After(time.Hour)
		if err := other.Release(); err != nil {
			t.Errorf("the lock on another name: %v", err)
		}
		if again, err := l.TryAcquire(t.Context(), "job"); err != nil || !safety.Rises(t, again.Fence(), h.Fence()) {
			t.Errorf("taken again: %v, %v", again, err)
		}
	})
}

// A lock that was handed over is lost at once, too.
func TestLoseAfterAHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		peer := padlock.New(script.Peer())
		defer peer.Close(context.Background())
		before, err := peer.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		taken := make(chan *padlock.Lock)
		go func() {
			h, err := l.Acquire(t.Context(), "job")
			if err != nil {
				t.Error(err)
			}
			taken <- h
		}()
		synctest.Wait()
		if err := before.Release(); err != nil {
			t.Error(err)
		}
		h := <-taken
		if n := script.Requests(padlocktest.Acquire); n != 1 {
			t.Errorf("there were %d requests, so the lock was not handed over", n)
		}
		script.Lose("job")
		synctest.Wait()
		if err := context.Cause(h.Context()); !errors.Is(err, padlock.ErrLost) {
			t.Errorf("the context says %v", err)
		}
	})
}

func TestLoseOfWhatNobodyHolds(t *testing.T) {
	_, script := padlocktest.New(t)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	script.Lose("job")
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		by := padlock.Hold{Holder: driver.Holder{Host: "db7", PID: 42, Label: "vacuum"}, Since: time.Now().Add(-time.Hour), Foreign: true}
		free := script.Hold("job", by)
		_, err := l.TryAcquire(t.Context(), "job")
		var held *padlock.HeldError
		if !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0] != by || !held.Until.IsZero() {
			t.Errorf("held by %+v: %v", held, err)
		}
		if s, err := l.Inspect(t.Context(), "job"); err != nil || len(s.Holds) != 1 || s.Holds[0] != by {
			t.Errorf("%+v, %v", s, err)
		}
		if _, err := l.Acquire(t.Context(), "job", padlock.SkipIfOutlived(), padlock.Wait(time.Minute)); !errors.Is(err, padlock.ErrHeld) {
			t.Error(err)
		}
		time.AfterFunc(time.Minute, free)
		start := time.Now()
		if _, err := l.Acquire(t.Context(), "job"); err != nil || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		script.Hold("until", padlock.Hold{Until: time.Now().Add(10 * time.Second)})
		start = time.Now()
		if _, err := l.Acquire(t.Context(), "until"); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		defer script.Hold("read", padlock.Hold{Shared: true})()
		if _, err := l.TryAcquire(t.Context(), "read", padlock.Shared()); err != nil {
			t.Error(err)
		}
	})
}

func TestTroubleWithRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		errNoPerm := errors.New("no permission")
		script.Fail(padlocktest.Acquire, 1, errors.Join(padlock.ErrUnavailable, errNoPerm))
		if _, err := l.TryAcquire(t.Context(), "job"); !errors.Is(err, errNoPerm) || !errors.Is(err, padlock.ErrUnavailable) {
			t.Error(err)
		}
		script.LoseReplies(padlocktest.Acquire, 2)
		h, err := l.TryAcquire(t.Context(), "job")
		if err != nil || script.Requests(padlocktest.Acquire) != 4 {
			t.Errorf("%d requests, %v", script.Requests(padlocktest.Acquire), err)
		}
		script.Fail(padlocktest.Extend, padlocktest.Always, padlock.ErrUnavailable)
		<-h.Context().Done()
		if n := script.Requests(padlocktest.Extend); n < 3 || script.Requests(padlocktest.All) != 4+n {
			t.Errorf("%d extends, %d requests", n, script.Requests(padlocktest.All))
		}
		if err := h.Release(); !errors.Is(err, padlock.ErrExpired) {
			t.Error(err)
		}
		script.Heal()
		script.LoseReplies(padlocktest.Acquire, padlocktest.Always)
		if _, err := l.TryAcquire(t.Context(), "job"); !errors.Is(err, padlock.ErrUncertain) {
			t.Error(err)
		}
		script.Heal()
	})
}

func TestSlowAndSilentStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		script.Delay(padlocktest.Acquire|padlocktest.Release, time.Second)
		start := time.Now()
		h, err := l.TryAcquire(t.Context(), "job")
		if err != nil || h.Release() != nil || time.Since(start) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		script.Heal()
		script.Down()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := l.TryAcquire(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, padlock.ErrUncertain) {
			t.Error(err)
		}
		script.Heal()
		if _, err := l.TryAcquire(t.Context(), "job"); err != nil {
			t.Error(err)
		}
	})
}

// Down is what docs/first-program.md says of a server that is silent: a new lock gets
// ErrUnavailable after 3 to 6 s, and ErrUncertain too if a request was sent before the silence was
// noticed.
func TestDownIsAServerThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		for range 2 { // after Heal, Down begins anew
			script.Down()
			for i := range 3 {
				start := time.Now()
				err := l.Do(t.Context(), "job", func(context.Context) error { t.Error("Do got the lock"); return nil })
				took := time.Since(start)
				if !errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrUncertain) != (i == 0) {
					t.Errorf("try %d: %v", i, err)
				}
				if took < 3*time.Second || took > 6100*time.Millisecond {
					t.Errorf("try %d: it took %v", i, took)
				}
			}
			script.Heal()
			if err := l.Do(t.Context(), "job", func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestPeer(t *testing.T) {
	l, script := padlocktest.New(t)
	peer := padlock.New(script.Peer())
	h, err := peer.TryAcquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryAcquire(t.Context(), "job"); !errors.Is(err, padlock.ErrHeld) {
		t.Error(err)
	}
	script.Down()
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	if err := peer.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Script can do all that a store must do, such as hand-over, promotion and adoption.
func TestScriptIsAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		h, err := l.Acquire(t.Context(), "job", padlock.Shared())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(h.Promote(t.Context()), h.Demote(t.Context()), h.Extend(t.Context(), 50*time.Second), h.Check(t.Context())); err != nil {
			t.Error(err)
		}
		key, err := h.Export(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		adopted, err := l.Adopt(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		script.Lose("job")
		<-adopted.Context().Done()
		if s, err := l.List(t.Context(), ""); err != nil || len(s) != 0 {
			t.Errorf("%v, %v", s, err)
		}
	})
}

// If LoseReplies loses a reply, the request was carried out.
func TestALostReplyIsOfARequestThatWasCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		h, err := l.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		script.LoseReplies(padlocktest.Extend, 1)
		if err := h.Extend(t.Context(), 50*time.Second); !errors.Is(err, padlock.ErrUncertain) {
			t.Error(err)
		}
		s, err := l.Inspect(t.Context(), "job")
		if err != nil || len(s.Holds) != 1 || time.Until(s.Holds[0].Until) != 50*time.Second {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// If several failures are planned, each of them has its turn.
func TestFailuresComeOneAfterTheOther(t *testing.T) {
	l, script := padlocktest.New(t)
	script.Fail(padlocktest.Acquire, 1, padlock.ErrUnavailable)
	script.Fail(padlocktest.All, 1, errors.ErrUnsupported)
	for _, want := range []error{padlock.ErrUnavailable, errors.ErrUnsupported, nil} {
		if _, err := l.TryAcquire(t.Context(), "job"); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// If a test leaves the store down, the end of the test does not wait for the store.
func TestTheEndOfATestHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		t.Cleanup(func() {
			if d := time.Since(start); d != 0 {
				t.Errorf("closed after %v", d)
			}
		})
		l, script := padlocktest.New(t)
		if _, err := l.Acquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		script.Down()
	})
}

// String returns a text for every Request, whatever bits are set.
func TestNamesOfRequests(t *testing.T) {
	for want, r := range map[string]padlocktest.Request{
		"Acquire": padlocktest.Acquire, "Extend|Wait": padlocktest.Wait | padlocktest.Extend, "Request(0)": 0,
		"Acquire|Extend|Release|Convert|Wait": padlocktest.All, "Release|Request(64)": padlocktest.Release | 64,
		"Acquire|Extend|Release|Convert|Wait|Request(-32)": padlocktest.Always,
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A key of one Script is refused at another one.
func TestKeyOfAnotherScript(t *testing.T) {
	l, _ := padlocktest.New(t)
	other, _ := padlocktest.New(t)
	h, err := l.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	key, err := h.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.ReleaseKey(t.Context(), key); !errors.Is(err, padlock.ErrInvalid) {
		t.Error(err)
	}
	if err := l.ReleaseKey(t.Context(), key); err != nil {
		t.Error(err)
	}
}
