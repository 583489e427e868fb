package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// slotRemote is a remote that takes a permit in one step.
type slotRemote struct{ *remote }

func (r slotRemote) AcquireSlot(ctx context.Context, q driver.Request, n int, ahead bool) (slot int, g driver.Grant, err error) {
	c := call{op: "slot", name: q.Name, token: q.Token.Text(), ttl: q.TTL, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { slot, g, err = r.Store.AcquireSlot(ctx, q, n, ahead); return err })
	if err != nil {
		return 0, driver.Grant{}, err
	}
	return slot, r.answer(g), nil
}

// If the reply is lost, the request is repeated, and the caller has one permit and not two.
func TestSlotsAfterALostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slotRemote{newRemote()}
		l := newLocker(t, store)
		store.reply("slot", first(1, lost))
		k := acquire(t, l, "job", padlock.Slots(3))
		if calls := store.log("slot"); len(calls) != 2 || k.Slot() != 0 {
			t.Errorf("%d requests for permit %d", len(calls), k.Slot())
		}
		if states, err := l.List(t.Context(), ""); err != nil || len(states) != 1 {
			t.Errorf("%d permits are held, %v", len(states), err)
		}
		release(t, k)
		if states, err := l.List(t.Context(), ""); err != nil || len(states) != 0 {
			t.Errorf("%d permits are held, %v", len(states), err)
		}
	})
}

// If no reply comes, the caller does not know which permit its token may have. Every permit is
// cleaned up.
func TestSlotsWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slotRemote{newRemote()}
		l := newLocker(t, store)
		kept := acquire(t, l, "job", padlock.Slots(3))
		store.reply("slot", lost)
		if _, err := l.Acquire(t.Context(), "job", padlock.Slots(3)); !errors.Is(err, padlock.ErrUncertain) {
			t.Errorf("the error is %v", err)
		}
		<-time.After(5 * time.Second)
		if states, err := l.List(t.Context(), ""); err != nil || len(states) != 1 {
			t.Errorf("%d permits are held, %v", len(states), err)
		}
		store.heal()
		release(t, kept)
	})
}

// A caller that takes a permit in one step sends one request for it. A caller that waits sends one
// more for each time at which a permit may be free.
func TestSlotsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slotRemote{newRemote()}
		l := newLocker(t, store)
		var held []*padlock.Lock
		for range 4 {
			held = append(held, acquire(t, l, "job", padlock.Slots(4)))
		}
		if n, plain := len(store.log("slot")), len(store.log("acquire")); n != 4 || plain != 0 {
			t.Errorf("4 permits took %d and %d requests", n, plain)
		}
		got := make(chan *padlock.Lock)
		go func() { got <- acquire(t, l, "job", padlock.Slots(4)) }()
		synctest.Wait()
		<-time.After(time.Second)
		release(t, held[2])
		k := <-got
		if k.Slot() != 2 {
			t.Errorf("the permit is %d", k.Slot())
		}
		// The caller asks at once, at the gate, and after the release.
		if n := len(store.log("slot")) - 4; n != 3 {
			t.Errorf("the caller that waited sent %d requests", n)
		}
		for _, k := range append(held[:2], held[3], k) {
			release(t, k)
		}
	})
}

// A call with a weight sends a request for each permit, and one more for the gate if it wants more than
// half of them.
func TestWeightRequests(t *testing.T) {
	for oneStep, op := range map[bool]string{true: "slot", false: "acquire"} {
		for weight, want := range map[int]int{1: 1, 5: 5, 6: 7, 10: 11} {
			synctest.Test(t, func(t *testing.T) {
				far := newRemote()
				var s driver.Store = far
				if oneStep {
					s = slotRemote{far}
				}
				l := newLocker(t, s)
				all, err := l.AcquireAll(t.Context(), []string{"job"}, padlock.Slots(10), padlock.Weight(weight))
				if err != nil || len(far.log("slot", "acquire")) != want || len(far.log(op)) < weight {
					t.Errorf("%s: %d requests for %d permits, %v", op, len(far.log("slot", "acquire")), weight, err)
				}
				all.Release()
			})
		}
	}
}

// TryAcquire takes a free permit even if another caller is at the gate, and a caller that waits
// does not.
func TestSlotsAndTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slotRemote{newRemote()}
		l := newLocker(t, store)
		gate, err := store.Store.Acquire(t.Context(), driver.Request{Name: fast.SlotGate("job", 2), Token: driver.TokenOf("other"), TTL: time.Minute})
		if err != nil || gate.TTL == 0 {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), "job", padlock.Slots(2), padlock.Wait(time.Second)); !errors.Is(err, padlock.ErrHeld) {
			t.Errorf("a caller that waits gets %v", err)
		}
		k, err := l.TryAcquire(t.Context(), "job", padlock.Slots(2))
		if err != nil {
			t.Fatalf("TryAcquire: %v", err)
		}
		release(t, k)
		if _, err := store.Store.Release(t.Context(), fast.SlotGate("job", 2), "other", 0); err != nil {
			t.Error(err)
		}
	})
}

// A caller with Slots whose reply was lost is one clean-up, whatever the number of permits. So it
// does not displace the clean-ups of other callers.
func TestCleanUpOfAnUnknownPermitIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slotRemote{newRemote()}
		l := newLocker(t, store)
		store.reply("slot", lost)
		store.reply("acquire", lost)
		store.request("release", lost)
		const callers, slots = 40, 64
		for range callers {
			if _, err := l.TryAcquire(t.Context(), "job", padlock.Slots(slots)); !errors.Is(err, padlock.ErrUncertain) {
				t.Fatal(err)
			}
		}
		if _, err := l.TryAcquire(t.Context(), "other"); !errors.Is(err, padlock.ErrUncertain) {
			t.Fatal(err)
		}
		if s := l.Stats(); s.Uncertain != callers+1 || s.CleanUps != callers+1 || s.CleanUpsDropped != 0 {
			t.Errorf("%+v", s)
		}
		if states, err := l.List(t.Context(), ""); err != nil || len(states) != callers+1 {
			t.Errorf("%d names are held, %v", len(states), err)
		}
		store.heal()
		before := len(store.log("release"))
		<-time.After(5 * time.Second)
		if states, err := l.List(t.Context(), ""); err != nil || len(states) != 0 {
			t.Errorf("%d names are left, %v", len(states), err)
		}
		if s := l.Stats(); s.CleanUps != 0 || s.CleanUpsDropped != 0 {
			t.Errorf("afterwards: %+v", s)
		}
		if n := len(store.log("release")) - before; n > 2*(callers*slots+1) {
			t.Errorf("%d requests for the clean-ups", n)
		}
	})
}
