package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// wrapper adds nothing to a store, and has none of its abilities itself.
type wrapper struct{ driver.Store }

func (w wrapper) Unwrap() driver.Store { return w.Store }

// A Locker uses the abilities of a store inside a wrapper.
func TestAbilitiesInsideAWrapper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, wrapper{memstore.New()})
		h := acquire(t, l, "job", padlock.Shared())
		if err := h.Promote(t.Context()); err != nil {
			t.Error(err)
		}
		state, err := l.Inspect(t.Context(), "job")
		if err != nil || len(state.Holds) != 1 {
			t.Errorf("%+v, %v", state, err)
		}
		if states, err := l.List(t.Context(), ""); err != nil || len(states) != 1 {
			t.Errorf("%+v, %v", states, err)
		}
		if _, err := l.Break(t.Context(), "job", state.Fence); err != nil {
			t.Error(err)
		}
		h.Release()
	})
}

// A waiter of a wrapped store waits in the store's queue: it gets the lock in the instant of the
// release. Without the store's Waiter it would poll.
func TestWaitInsideAWrapper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newRemote()
		l, other := newLocker(t, wrapper{server}), newLocker(t, server.Store.Open())
		h := acquire(t, other, "job")
		start := time.Now()
		time.AfterFunc(time.Minute, func() { h.Release() })
		release(t, acquire(t, l, "job"))
		if d := time.Since(start); d != time.Minute || len(server.log("wait")) == 0 {
			t.Errorf("waited %v, with %d waits in the store's queue", d, len(server.log("wait")))
		}
	})
}

// inPart is a store that knows only a part of its state.
type inPart struct{ driver.Store }

func (inPart) Inspect(context.Context, string) (driver.State, error) {
	return driver.State{Name: "job", Holds: []driver.Hold{{}}}, errors.ErrUnsupported
}

func (inPart) List(context.Context, string) ([]driver.State, error) {
	return []driver.State{{Name: "job"}}, padlock.ErrUnavailable
}

func (inPart) Break(context.Context, string, uint64) (uint64, error) {
	return 0, errors.ErrUnsupported
}

func TestInspectAndListInPart(t *testing.T) {
	l := padlock.New(inPart{memstore.New()})
	defer l.Close(t.Context())
	state, err := l.Inspect(t.Context(), "job")
	if len(state.Holds) != 1 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Inspect returns %+v, %v", state, err)
	}
	states, err := l.List(t.Context(), "")
	if len(states) != 1 || states[0].Name != "job" || !errors.Is(err, padlock.ErrUnavailable) {
		t.Errorf("List returns %+v, %v", states, err)
	}
}
