package padlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/memstore"
)

// A key extends and releases its lock without an adoption, so it stays good.
func TestKeyExtendsAndReleases(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		h := acquire(t, l, "job", padlock.TTL(time.Second), padlock.NoRenewal())
		key := travel(t, h)
		for range 3 {
			left, err := l.ExtendKey(t.Context(), key, 10*time.Second)
			if err != nil || left < 9*time.Second || left > 10*time.Second {
				t.Fatalf("%v left, %v; want almost 10s", left, err)
			}
			<-time.After(5 * time.Second)
		}
		if err := l.ReleaseKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		wantOnly(t, l.ReleaseKey(t.Context(), key), "release", padlock.ErrLost)
		_, err := l.ExtendKey(t.Context(), key, time.Second)
		wantOnly(t, err, "extend", padlock.ErrLost)
		release(t, acquire(t, l, "job"))
		wantOnly(t, h.Release(), "release", padlock.ErrLost)
	})
}

// What is adopted is out of reach of the key before.
func TestKeyOfWhatIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		key := travel(t, acquire(t, l, "job"))
		adopted, err := l.Adopt(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.ExtendKey(t.Context(), key, time.Second)
		wantOnly(t, err, "extend", padlock.ErrLost)
		wantOnly(t, l.ReleaseKey(t.Context(), key), "release", padlock.ErrLost)
		release(t, adopted, padlock.CoolDown(time.Second))
		if free(t, store, "job") {
			t.Error("a cool-down ends too early")
		}
	})
}

// A lost reply is asked for again; what then cannot be known is in doubt.
func TestKeyWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		key := travel(t, acquire(t, l, "job"))
		store.reply("extend", first(2, lost))
		if _, err := l.ExtendKey(t.Context(), key, time.Minute); err != nil {
			t.Fatal(err)
		}
		store.reply("extend", lost)
		if _, err := l.ExtendKey(t.Context(), key, time.Minute); err == nil || errors.Is(err, padlock.ErrLost) {
			t.Errorf("without any reply: %v", err)
		}
		store.heal()
		store.request("release", fails(padlock.ErrUnavailable))
		wantOnly(t, l.ReleaseKey(t.Context(), key), "release", padlock.ErrUnavailable)
		store.heal()
		store.reply("release", first(1, lost))
		wantOnly(t, l.ReleaseKey(t.Context(), key), "release", padlock.ErrUncertain, padlock.ErrLost)
		store.heal()
		store.reply("release", lost)
		wantOnly(t, l.ReleaseKey(t.Context(), key), "release", padlock.ErrUncertain)
	})
}

func TestKeyWhereItIsOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		key := travel(t, acquire(t, l, "job"))
		wantOnly(t, l.ReleaseKey(t.Context(), padlock.Key{}), "release", padlock.ErrInvalid)
		wantOnly(t, l.ReleaseKey(t.Context(), key, padlock.CoolDown(-1)), "release", padlock.ErrInvalid)
		_, err := l.ExtendKey(t.Context(), key, time.Nanosecond)
		wantOnly(t, err, "extend", padlock.ErrInvalid)
		store := newRemote()
		store.guarantees.Bound = driver.ToProcess
		bound := newLocker(t, store)
		wantOnly(t, bound.ReleaseKey(t.Context(), key), "release", errors.ErrUnsupported)
		closed := padlock.New(memstore.New())
		if err := closed.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		_, err = closed.ExtendKey(t.Context(), key, time.Second)
		wantOnly(t, err, "extend", padlock.ErrClosed)
	})
}
