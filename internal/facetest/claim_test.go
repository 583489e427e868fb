package facetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/filestore"
	"github.com/padlock-go/padlock/stores/memstore"
)

func claim(t *testing.T, l *padlock.Locker, name string, d time.Duration, want bool) {
	t.Helper()
	if got, err := l.Claim(t.Context(), name, d); got != want || err != nil {
		t.Errorf("Claim returns %v, %v; want %v", got, err, want)
	}
}

// A claim lasts exactly as long as it should: it is neither renewed nor released.
func TestClaim(t *testing.T) {
	for _, d := range []time.Duration{100 * time.Millisecond, 10 * time.Second, 24 * time.Hour} {
		everyKind(t, func(t *testing.T, s padlock.Store) {
			l, other := newLocker(t, s, padlock.Shared(), padlock.Slots(3), padlock.HoldAtMost(time.Millisecond)), newLocker(t, s)
			claim(t, l, "message 1", d, true)
			if n := l.Stats().Held; n != 0 {
				t.Errorf("%d locks are held", n)
			}
			claim(t, l, "message 1", d, false)
			claim(t, other, "message 1", d, false)
			claim(t, l, "message 2", d, true)
			<-time.After(d - 10*time.Millisecond)
			claim(t, other, "message 1", d, false)
			<-time.After(50 * time.Millisecond)
			claim(t, other, "message 1", d, true)
		})
	}
}

// A claim is one request, and none follows.
func TestRequestsOfAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := padlock.New(store, padlock.KeepStoreOpen())
		claim(t, l, "message", time.Hour, true)
		<-time.After(2 * time.Hour)
		claim(t, l, "message", time.Minute, true)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(store.log("acquire")); n != 2 || len(store.log("extend")) > 0 || len(store.log("release")) > 0 {
			t.Errorf("requests: %+v", store.calls)
		}
		if free(t, store, "message") {
			t.Error("Close has released a claim")
		}
	})
}

// On a store that binds its locks to the process, Claim releases the hold, and the name stays
// taken.
func TestClaimInFiles(t *testing.T) {
	store, err := filestore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := newLocker(t, store)
	claim(t, l, "message", time.Hour, true)
	claim(t, l, "message", time.Hour, false)
	const short = 100 * time.Millisecond // a slow machine may need longer for the next line
	began := time.Now()
	claim(t, l, "soon free", short, true)
	k, err := l.Acquire(t.Context(), "soon free", padlock.Wait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d < short-10*time.Millisecond {
		t.Errorf("a claim of %v was over after %v", short, d)
	}
	release(t, k)
}

// A lost reply never becomes a no, nor two claims.
func TestClaimWithoutReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		store.reply("acquire", once(driver.ErrUncertain))
		claim(t, l, "message 1", time.Minute, true)

		store.reply("acquire", fails(driver.ErrUncertain))
		got, err := l.Claim(t.Context(), "message 2", time.Minute)
		if wantOnly(t, err, "acquire", padlock.ErrUncertain); got {
			t.Error("claimed")
		}

		store.heal()
		store.reply("acquire", func(_ context.Context, n int) error {
			if n > 0 {
				return nil
			}
			<-time.After(5 * time.Second) // the claim is over, and another caller has the name
			if _, err := padlock.New(store.Store).TryAcquire(t.Context(), "message 3"); err != nil {
				t.Error(err)
			}
			return driver.ErrUncertain
		})
		got, err = l.Claim(t.Context(), "message 3", 2*time.Second)
		if wantOnly(t, err, "acquire", padlock.ErrUncertain, padlock.ErrHeld); got {
			t.Error("claimed")
		}
	})
}

func once(err error) trouble {
	return func(_ context.Context, n int) error {
		if n == 0 {
			return err
		}
		return nil
	}
}

func TestClaimThatIsImpossible(t *testing.T) {
	l := newLocker(t, memstore.New())
	for _, d := range []time.Duration{-time.Second, 0, time.Millisecond, 25 * time.Hour} {
		_, err := l.Claim(t.Context(), "message", d)
		wantOnly(t, err, "acquire", padlock.ErrInvalid)
	}
	claim(t, l, "message", time.Hour, true)
	store := newRemote()
	store.guarantees.CoolDown = false
	_, err := newLocker(t, store).Claim(t.Context(), "message", time.Hour)
	wantOnly(t, err, "acquire", errors.ErrUnsupported)
}

// Observers see a claim as a lock that is held for no time.
func TestEventsOfAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []padlock.EventKind
		l := newLocker(t, newRemote(), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) { kinds = append(kinds, e.Kind) })))
		claim(t, l, "message", time.Hour, true)
		want := []padlock.EventKind{padlock.EventAcquiring, padlock.EventAcquired, padlock.EventReleasing, padlock.EventReleased}
		if !slices.Equal(kinds, want) {
			t.Errorf("%v, want %v", kinds, want)
		}
	})
}

// TryDo runs its function or returns ErrHeld at once.
func TestTryDo(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		ran, start := 0, time.Now()
		opts := make([]padlock.Option, 1, 8)
		opts[0] = padlock.Wait(time.Hour)
		do := func() error {
			return l.TryDo(t.Context(), "job", func(ctx context.Context) error { ran++; return nil }, opts...)
		}
		if err := do(); err != nil {
			t.Error(err)
		}
		k := acquire(t, l, "job")
		wantOnly(t, do(), "acquire", padlock.ErrHeld)
		if release(t, k); ran != 1 || time.Since(start) > time.Second {
			t.Errorf("it ran %d times, after %v", ran, time.Since(start))
		}
		if opts[:2][1] != nil {
			t.Error("TryDo has written into the caller's options")
		}
	})
}
