package facetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A key extends and releases its lock without an adoption, and stays good.
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

// A key has no effect on a lock that was adopted with it.
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
			safety.TooEarly(t, "a cool-down has ended")
		}
	})
}

// A lock that the caller extends has no planned end, as a lock that the Locker renews has none. The
// end of its first lease is no plan: after an Extend the lock would look stuck.
func TestNoPlanWithoutHoldAtMost(t *testing.T) {
	for name, extend := range map[string]func(*padlock.Locker, *padlock.Lock) error{
		"Extend": func(_ *padlock.Locker, h *padlock.Lock) error { return h.Extend(t.Context(), 10*time.Second) },
		"ExtendKey": func(l *padlock.Locker, h *padlock.Lock) error {
			_, err := l.ExtendKey(t.Context(), travel(t, h), 10*time.Second)
			return err
		},
		"Adopt": func(l *padlock.Locker, h *padlock.Lock) error {
			_, err := l.Adopt(t.Context(), travel(t, h), padlock.TTL(10*time.Second), padlock.NoRenewal())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, newRemote())
				h := acquire(t, l, "job", padlock.NoRenewal(), padlock.TTL(10*time.Second))
				<-time.After(8 * time.Second)
				if err := extend(l, h); err != nil {
					t.Fatal(err)
				}
				<-time.After(5 * time.Second)
				state, err := l.Inspect(t.Context(), "job")
				if err != nil || len(state.Holds) != 1 || !state.Holds[0].PlannedEnd.IsZero() || time.Until(state.Holds[0].Until) != 5*time.Second {
					t.Errorf("after the first lease: %+v, %v", state, err)
				}
			})
		})
	}
}

// A request whose reply was lost is repeated; if its outcome stays unknown, the error says so.
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
		wantOnly(t, l.ReleaseKey(t.Context(), key), "release", padlock.ErrUncertain)
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
		store.guarantees.Bound = driver.BoundToProcess
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

// A key at another store is an error that says so; nothing is sent. It is not compared if the id of
// the key or that of the store is not known.
func TestKeyAtAnotherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, away := identified{newRemote()}, identified{newRemote()}
		here, there := newLocker(t, home), newLocker(t, away)
		key := travel(t, acquire(t, here, "job"))
		_, err := there.Adopt(t.Context(), key)
		wantOnly(t, err, "adopt", padlock.ErrInvalid)
		if !strings.Contains(err.Error(), "another store") {
			t.Errorf("the error says %q", err)
		}
		_, err = there.ExtendKey(t.Context(), key, time.Minute)
		wantOnly(t, err, "extend", padlock.ErrInvalid)
		wantOnly(t, there.ReleaseKey(t.Context(), key), "release", padlock.ErrInvalid)
		if n := away.requests(); n["acquire"]+n["extend"]+n["release"] != 0 {
			t.Errorf("%v", n)
		}
		away.request("id", fails(padlock.ErrUnavailable))
		wantOnly(t, there.ReleaseKey(t.Context(), key), "release", padlock.ErrLost)
		same := newLocker(t, identified{connect(home.Store)})
		if _, err := same.ExtendKey(t.Context(), key, time.Minute); err != nil {
			t.Error(err)
		}
		home.request("id", fails(padlock.ErrUnavailable))
		anonymous := travel(t, acquire(t, here, "anonymous"))
		wantOnly(t, there.ReleaseKey(t.Context(), anonymous), "release", padlock.ErrLost)
		away.heal()
		wantOnly(t, there.ReleaseKey(t.Context(), anonymous), "release", padlock.ErrLost)
		adopted, err := same.Adopt(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		release(t, adopted)
	})
}

// identified is a remote whose server has an id.
type identified struct{ *remote }

func (s identified) StoreID(ctx context.Context) (id string, err error) {
	err = s.on(call{op: "id", ctx: ctx}, func(ctx context.Context) error { id, err = s.Store.StoreID(ctx); return err })
	return id, err
}

func (s identified) Location(name string) (string, error) { return name, nil }
func (s identified) SamePlace(driver.Store) bool          { return false }

// The token of another program becomes a key, and a key gives its token to another program.
func TestKeyForATokenOfAnotherProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		for _, shared := range []bool{false, true} {
			r := driver.Request{Name: "job", Token: driver.TokenOf("php-5f3a"), TTL: 50 * time.Second, Shared: shared}
			if _, err := store.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			mode := padlock.ModeExclusive
			if shared {
				mode = padlock.ModeShared
			}
			key, err := padlock.KeyFor("job", r.Token.Text(), mode)
			if err != nil || key.Token() != r.Token.Text() || key.Name() != "job" || key.Shared() != shared {
				t.Fatalf("%v, %v", key, err)
			}
			h, err := l.Adopt(t.Context(), key)
			if err != nil || h.Shared() != shared {
				t.Fatalf("%v, %v", h, err)
			}
			back := travel(t, h)
			if _, err := store.Release(t.Context(), "job", back.Token(), 0); err != nil {
				t.Fatal(err)
			}
			wantOnly(t, h.Check(t.Context()), "check", padlock.ErrLost)
		}
	})
	for _, c := range [][2]string{{"", "token"}, {"job", ""}, {"job", "__write__"}, {strings.Repeat("n", driver.MaxName+1), "token"}} {
		if key, err := padlock.KeyFor(c[0], c[1], padlock.ModeShared); !errors.Is(err, padlock.ErrInvalid) || !key.Equal(padlock.Key{}) {
			t.Errorf("%.20q, %q: %v, %v", c[0], c[1], key, err)
		}
	}
}

// A key of the first format, without the id of its store, is read; one of a later format is refused
// with the reason.
func TestFormatsOfKeys(t *testing.T) {
	key, err := padlock.ParseKey("padlock1.eyJuIjoiYW05aSIsInQiOiJ0In0")
	if err != nil || key.Name() != "job" || key.Token() != "t" {
		t.Errorf("%v, %v", key, err)
	}
	_, err = padlock.ParseKey("padlock12.secret-canary")
	if !errors.Is(err, padlock.ErrInvalid) || !strings.Contains(err.Error(), "newer padlock") || strings.Contains(err.Error(), "canary") {
		t.Error(err)
	}
	for _, text := range []string{"padlock0.x", "padlock.x", "padlock-1.x", "padlock2", "latch1.x"} {
		if _, err := padlock.ParseKey(text); !errors.Is(err, padlock.ErrInvalid) || strings.Contains(err.Error(), "newer") {
			t.Errorf("%q: %v", text, err)
		}
	}
	// The longest key fits.
	long, err := padlock.KeyFor(strings.Repeat("\xff", driver.MaxName), strings.Repeat("t", driver.MaxToken), padlock.ModeExclusive)
	if err != nil {
		t.Fatal(err)
	}
	key, err = padlock.ParseKey(long.Text())
	if err != nil || !key.Equal(long) {
		t.Errorf("%d bytes: %v", len(long.Text()), err)
	}
}
