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

const myToken = "order-4711.b7f3"

// repeat repeats a call with myToken through another Locker, and returns the Lock.
func repeat(t *testing.T, s padlock.Store, name string, opts ...padlock.Option) (*padlock.Lock, error) {
	t.Helper()
	other := padlock.New(s, padlock.KeepStoreOpen())
	t.Cleanup(func() { _ = other.Close(context.Background()) }) // the lock may be over
	return other.TryAcquire(t.Context(), name, append(opts, padlock.Token(myToken))...)
}

// wantRepeat checks that a repeat of the call, in another process, finds the lock k.
func wantRepeat(t *testing.T, s padlock.Store, name string, k *padlock.Lock, opts ...padlock.Option) {
	t.Helper()
	again, err := repeat(t, s, name, opts...)
	if err != nil {
		t.Fatalf("a repeat gets %v", err)
	}
	if again.Fence() != k.Fence() || again.Name() != k.Name() {
		t.Errorf("a repeat gets the fence %d of %q, and the lock has the fence %d of %q", again.Fence(), again.Name(), k.Fence(), k.Name())
	}
}

func TestTokenIsRepeatable(t *testing.T) {
	for _, mode := range [][]padlock.Option{nil, {padlock.Shared()}} {
		everyKind(t, func(t *testing.T, s padlock.Store) {
			l := newLocker(t, s)
			k := acquire(t, l, "job", append(mode, padlock.Token(myToken))...)
			wantRepeat(t, s, "job", k, mode...)
			elsewhere := acquire(t, l, "another job", append(mode, padlock.Token(myToken))...)
			if _, err := l.TryAcquire(t.Context(), "job"); !errors.Is(err, padlock.ErrHeld) {
				t.Errorf("another caller gets %v", err)
			}
			<-time.After(5 * padlock.DefaultTTL)
			wantRepeat(t, s, "job", k, mode...)
			release(t, k)
			if err := elsewhere.Check(t.Context()); err != nil {
				t.Errorf("the lock on another name, with the same token: %v", err)
			}
			release(t, acquire(t, l, "job", padlock.Wait(0)))
			release(t, elsewhere)
		})
	}
}

// TestTokenTakesItsNameAnew: a lock was broken, another caller had the name, and the token takes it
// again elsewhere. The first lock is lost, although its token has the name. Each way to ask notices
// that.
func TestTokenTakesItsNameAnew(t *testing.T) {
	for how, notice := range map[string]func(t *testing.T, k *padlock.Lock) error{
		"Check":  func(t *testing.T, k *padlock.Lock) error { return k.Check(t.Context()) },
		"Extend": func(t *testing.T, k *padlock.Lock) error { return k.Extend(t.Context(), 0) },
		"renewal": func(_ *testing.T, k *padlock.Lock) error {
			<-time.After(padlock.DefaultTTL)
			return context.Cause(k.Context())
		},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				first := acquire(t, newLocker(t, s), "job", padlock.Token(myToken))
				if _, err := s.Break(t.Context(), "job", first.Fence()); err != nil {
					t.Fatal(err)
				}
				release(t, acquire(t, newLocker(t, s), "job", padlock.Wait(0)))
				again, err := repeat(t, s, "job")
				if err != nil || !safety.Rises(t, again.Fence(), first.Fence()) {
					t.Fatal(again.Fence(), err)
				}
				if err := notice(t, first); !errors.Is(err, padlock.ErrLost) {
					safety.TwoHold(t, "the first lock, with the fence %d beside %d, says: %v", first.Fence(), again.Fence(), err)
				}
				if first.Context().Err() == nil {
					safety.Broken(t, "the context of the first lock goes on")
				}
				if err := again.Check(t.Context()); err != nil {
					t.Errorf("the second lock: %v", err)
				}
			})
		})
	}
}

// A refused token is sent again as it is, and gets the lock when the name is free.
func TestTokenAfterRefusal(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		k := acquire(t, l, "job")
		for range 3 {
			_, err := repeat(t, s, "job")
			wantOnly(t, err, padlock.OpAcquire, padlock.ErrHeld)
		}
		release(t, k)
		again, err := repeat(t, s, "job")
		if err != nil {
			t.Fatal(err)
		}
		safety.Rises(t, again.Fence(), k.Fence())
		wantRepeat(t, s, "job", again)
		release(t, again)
	})
}

// A caller with Token waits in its turn. Then it has the lock with its own token, and nothing else
// is left in the store.
func TestTokenWaits(t *testing.T) {
	modes := map[string][]padlock.Option{"exclusive": nil, "shared": {padlock.Shared()}, "at least": {padlock.HoldAtLeast(time.Second), padlock.FenceAbove(1 << 52)}}
	for kind, mode := range modes {
		t.Run(kind, func(t *testing.T) {
			everyKind(t, func(t *testing.T, s padlock.Store) {
				l := newLocker(t, s)
				first := acquire(t, l, "job")
				got := make(chan *padlock.Lock)
				go func() { got <- acquire(t, l, "job", append(mode, padlock.Token(myToken))...) }()
				synctest.Wait()
				if st := l.Stats(); st.Waiting != 1 || st.Held != 1 {
					t.Errorf("while it waits: %+v", st)
				}
				last := make(chan *padlock.Lock)
				go func() { last <- acquire(t, l, "job") }()
				synctest.Wait()
				release(t, first)
				k := <-got
				if st := l.Stats(); st.Held != 1 || st.Acquired != 2 || st.Contended != 2 {
					t.Errorf("after the wait: %+v", st)
				}
				if kind == "at least" && k.Fence() <= 1<<52 {
					t.Errorf("the fence is %d", k.Fence())
				}
				wantRepeat(t, s, "job", k, mode...)
				<-time.After(5 * padlock.DefaultTTL)
				if err := k.Check(t.Context()); err != nil {
					t.Errorf("after many renewals: %v", err)
				}
				release(t, k)
				release(t, <-last)
				if st := l.Stats(); st.Held != 0 || st.Waiting != 0 || st.Lost != 0 {
					t.Errorf("at the end: %+v", st)
				}
			})
		})
	}
}

// A call that gives up its wait leaves nothing, and its token can be used again.
func TestTokenGivesUpItsWait(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		k := acquire(t, l, "job")
		_, err := l.Acquire(t.Context(), "job", padlock.Token(myToken), padlock.Wait(time.Second))
		wantOnly(t, err, padlock.OpAcquire, padlock.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.Acquire(ctx, "job", padlock.Token(myToken))
		wantOnly(t, err, padlock.OpAcquire, padlock.ErrHeld, context.DeadlineExceeded)
		if st := l.Stats(); st.Held != 1 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		release(t, k)
		again, err := repeat(t, s, "job")
		if err != nil {
			t.Fatal(err)
		}
		release(t, again)
	})
}

// If the reply is lost, the token may have the lock, and a repeat in another process may have found
// it. So nothing is released in the background, and the lock ends with its lease or by its key.
func TestTokenAfterLostReplies(t *testing.T) {
	for _, op := range []string{"repeats", "releases the key", "does nothing"} {
		synctest.Test(t, func(t *testing.T) {
			s := newRemote()
			l := newLocker(t, s)
			s.reply("acquire", lost)
			_, err := l.TryAcquire(t.Context(), "job", padlock.Token(myToken))
			wantOnly(t, err, padlock.OpAcquire, padlock.ErrUncertain)
			s.heal()
			<-time.After(5 * time.Second)
			if st := l.Stats(); len(s.log("release")) > 0 || st.Uncertain != 0 || free(t, s, "job") {
				t.Errorf("a token that may have a hold elsewhere was released: %+v", st)
			}
			switch op {
			case "repeats":
				k := acquire(t, l, "job", padlock.Token(myToken), padlock.Wait(0))
				wantRepeat(t, s, "job", k)
				release(t, k)
			case "releases the key":
				key, err := padlock.KeyFor("job", myToken, padlock.ModeExclusive)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.ReleaseKey(t.Context(), key); err != nil {
					t.Error(err)
				}
			case "does nothing":
				<-time.After(padlock.DefaultTTL)
			}
			if !free(t, s, "job") {
				t.Error("the name is not free")
			}
		})
	}
}

// The first request is lost, the second one is refused, and then the first one arrives. The error
// says that the token may have the lock, and a repeat finds it.
func TestTokenArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		k := acquire(t, newLocker(t, connect(s.Store)), "job")
		s.request("acquire", first(1, lost))
		_, err := l.TryAcquire(t.Context(), "job", padlock.Token(myToken))
		wantOnly(t, err, padlock.OpAcquire, padlock.ErrHeld, padlock.ErrUncertain)
		release(t, k)
		late := driver.Request{Name: "job", Token: driver.TokenOf(myToken), TTL: padlock.DefaultTTL}
		g, err := s.Store.Acquire(t.Context(), late)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		again := acquire(t, l, "job", padlock.Token(myToken), padlock.Wait(0))
		if again.Fence() != g.Fence {
			t.Errorf("the repeat has the fence %d, and the late request the fence %d", again.Fence(), g.Fence)
		}
		release(t, again)
	})
}

// The request that puts the token in the place of the stand-in's fails. The
// stand-in has nothing in the end, and a repeat gets the lock.
func TestTokenReplacesItsStandIn(t *testing.T) {
	troubles := map[string]func(s *remote, swap trouble){
		"request lost": func(s *remote, swap trouble) { s.request("acquire", swap) },
		"reply lost":   func(s *remote, swap trouble) { s.reply("acquire", swap) },
	}
	for kind, set := range troubles {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRemote()
				l := newLocker(t, s)
				k := acquire(t, newLocker(t, connect(s.Store)), "job")
				result := make(chan error)
				go func() {
					_, err := l.Acquire(t.Context(), "job", padlock.Token(myToken))
					result <- err
				}()
				synctest.Wait()
				set(s, func(ctx context.Context, n int) error {
					if calls := s.log("acquire"); calls[len(calls)-1].token == myToken {
						return errReset
					}
					return nil
				})
				release(t, k)
				wantOnly(t, <-result, padlock.OpAcquire, padlock.ErrUncertain)
				s.heal()
				<-time.After(5 * time.Second)
				if state, err := s.Store.Inspect(t.Context(), "job"); err != nil || (len(state.Holds) == 0) != (kind == "request lost") {
					t.Errorf("the store has %+v, %v", state.Holds, err)
				}
				release(t, acquire(t, l, "job", padlock.Token(myToken), padlock.Wait(0)))
				if !free(t, s, "job") {
					t.Error("the name is not free")
				}
			})
		})
	}
}

// The stand-in loses its lock before the caller's token replaces it. The call waits again.
func TestTokenLosesItsStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		k := acquire(t, newLocker(t, connect(s.Store)), "job")
		got := make(chan *padlock.Lock)
		go func() { got <- acquire(t, l, "job", padlock.Token(myToken)) }()
		synctest.Wait()
		broken := false
		s.request("acquire", func(ctx context.Context, _ int) error {
			if calls := s.log("acquire"); !broken && calls[len(calls)-1].token == myToken {
				broken = true
				state, err := s.Store.Inspect(ctx, "job")
				if err == nil {
					_, err = s.Store.Break(ctx, "job", state.Fence)
				}
				if err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		release(t, k)
		again := <-got
		if !broken {
			t.Error("the lock of the stand-in was not broken")
		}
		wantRepeat(t, s, "job", again)
		release(t, again)
	})
}

// Two processes wait with one token. The second one finds the lock of the first at the end of Wait.
func TestTokenWaitsTwice(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		k := acquire(t, l, "job")
		got := make(chan *padlock.Lock, 2)
		for _, wait := range []time.Duration{time.Minute, 2 * time.Minute} {
			other := padlock.New(s, padlock.KeepStoreOpen())
			t.Cleanup(func() { _ = other.Close(context.Background()) })
			go func() { got <- acquire(t, other, "job", padlock.Token(myToken), padlock.Wait(wait)) }()
			synctest.Wait()
		}
		release(t, k)
		if one, two := <-got, <-got; one.Fence() != two.Fence() {
			t.Errorf("two calls with one token have the fences %d and %d", one.Fence(), two.Fence())
		}
	})
}

// A lock that is passed on has a token of the Locker's own, and not that of the last holder.
func TestTokenIsNotPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, relay{s})
		for range 3 {
			mine := acquire(t, l, "job", padlock.Token(myToken))
			next := make(chan *padlock.Lock)
			go func() { next <- acquire(t, l, "job") }()
			synctest.Wait()
			release(t, mine)
			k := <-next
			key, err := k.Export(t.Context())
			if err != nil || key.Token() == myToken {
				t.Errorf("the next holder has the token %q, %v", key.Token(), err)
			}
			safety.Rises(t, k.Fence(), mine.Fence())
			release(t, k)
			first := acquire(t, l, "job")
			mineNext := make(chan *padlock.Lock)
			go func() { mineNext <- acquire(t, l, "job", padlock.Token(myToken)) }()
			synctest.Wait()
			release(t, first)
			mine = <-mineNext
			wantRepeat(t, s, "job", mine)
			release(t, mine)
		}
	})
}

func TestTokenOfPermits(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		opts := []padlock.Option{padlock.Slots(3)}
		zero, one := acquire(t, l, "job", opts...), acquire(t, l, "job", opts...)
		mine := acquire(t, l, "job", padlock.Slots(3), padlock.Token(myToken))
		if mine.Slot() != 2 {
			t.Errorf("permit %d", mine.Slot())
		}
		release(t, zero)
		again, err := repeat(t, s, "job", opts...)
		if err != nil || again.Slot() != 2 || again.Fence() != mine.Fence() {
			t.Fatalf("a repeat gets %v, %v, and the token has permit 2", again, err)
		}
		release(t, mine)
		release(t, one)

		all := []*padlock.Lock{acquire(t, l, "job", opts...), acquire(t, l, "job", opts...), acquire(t, l, "job", opts...)}
		if _, err := repeat(t, s, "job", opts...); !errors.Is(err, padlock.ErrHeld) {
			t.Errorf("a repeat while all permits are held: %v", err)
		}
		got := make(chan *padlock.Lock)
		go func() { got <- acquire(t, l, "job", padlock.Slots(3), padlock.Token(myToken)) }()
		synctest.Wait()
		release(t, all[1])
		mine = <-got
		release(t, all[0])
		if again, err := repeat(t, s, "job", opts...); err != nil || again.Slot() != 1 || again.Fence() != mine.Fence() {
			t.Errorf("a repeat gets %v, %v, and the token has permit 1", again, err)
		}
		release(t, mine)
		release(t, all[2])
	})
}

func TestTokenOfAnAdoptedLock(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		k := acquire(t, l, "job")
		key := travel(t, k)
		mine, err := l.Adopt(t.Context(), key, padlock.Token(myToken))
		if err != nil || !safety.Rises(t, mine.Fence(), k.Fence()) {
			t.Fatalf("%v, %v", mine, err)
		}
		wantRepeat(t, s, "job", mine)
		other := padlock.New(s, padlock.KeepStoreOpen())
		defer other.Close(context.Background()) // the lock is over then
		if again, err := other.Adopt(t.Context(), key, padlock.Token(myToken)); err != nil || again.Fence() != mine.Fence() {
			t.Errorf("a repeat of Adopt: %v, %v", again, err)
		}
		_, err = l.Adopt(t.Context(), travel(t, mine), padlock.Token(myToken))
		wantOnly(t, err, padlock.OpAdopt, padlock.ErrInvalid)
		release(t, mine)
	})
}

func TestTokenIsRefused(t *testing.T) {
	s := newRemote()
	l := newLocker(t, s)
	for _, token := range []string{"", "two words", "tab\t", "line\n", "ü", "\x7f", strings.Repeat("x", driver.MaxToken+1), "padlock:x", "__write__"} {
		for _, opts := range [][]padlock.Option{{padlock.Token(token)}, {padlock.Token(token), padlock.Slots(2)}} {
			_, err := l.Acquire(t.Context(), "job", opts...)
			wantOnly(t, err, padlock.OpAcquire, padlock.ErrInvalid)
			if token != "" && strings.Contains(err.Error(), token) && token != "padlock:x" {
				t.Errorf("the error contains the token: %v", err)
			}
		}
	}
	_, err := l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.Token(myToken))
	if !errors.Is(err, padlock.ErrInvalid) {
		t.Errorf("several names: %v", err)
	}
	if sent := len(s.log("acquire")) + len(s.log("extend")); sent != 0 {
		t.Errorf("%d requests were sent", sent)
	}
	release(t, acquire(t, l, "job", padlock.Token(strings.Repeat("~", driver.MaxToken))))
}

// Some stores cannot repeat a call with a token. They refuse the option before they are asked.
func TestTokenNeedsAStoreThatRepeats(t *testing.T) {
	for kind, change := range map[string]func(*driver.Guarantees){
		"a quorum":      func(g *driver.Guarantees) { g.RefusedIsSpent = true },
		"bound":         func(g *driver.Guarantees) { g.Bound = driver.BoundToConnection },
		"not detached":  func(g *driver.Guarantees) { g.Bound, g.Detached = driver.BoundToProcess, true },
		"of a detached": nil,
	} {
		s := &remote{Store: memstore.New(), before: map[string]trouble{}, after: map[string]trouble{}}
		if s.guarantees = s.Store.Guarantees(); change != nil {
			change(&s.guarantees)
		} else {
			s.guarantees.Bound, s.guarantees.Detached = driver.BoundToProcess, true
		}
		l := newLocker(t, s)
		for _, opts := range [][]padlock.Option{{padlock.Token(myToken)}, {padlock.Token(myToken), padlock.Slots(2)}} {
			if change == nil {
				release(t, acquire(t, l, "job", append(opts, padlock.Detached())...))
				continue
			}
			_, err := l.TryAcquire(t.Context(), "job", opts...)
			wantOnly(t, err, padlock.OpAcquire, errors.ErrUnsupported)
			if sent := len(s.log("acquire")) + len(s.log("extend")); sent != 0 {
				t.Errorf("%s: %d requests were sent", kind, sent)
			}
		}
	}
}
