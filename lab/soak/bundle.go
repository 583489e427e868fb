package soak

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
)

// locks is what Lock and Locks have in common.
type locks interface {
	Context() context.Context
	Remaining() time.Duration
	Check(context.Context) error
	Release(...padlock.ReleaseOption) error
}

// A bundle is what one call has got: the lock on a path with its folders, or several permits. Its
// holder works while all of its locks last. The history shows the path, or each permit.
type bundle struct {
	locks
	worker *worker
	turn
	events []Event // one for each hold that the history shows
	over   atomic.Bool
}

// asks logs the beginning of a call, whose number is in the field Other of its events.
func (w *worker) asks(t *turn) Event {
	w.holds++
	e := Event{Op: Asked, Name: t.name, Slots: t.slots, Weight: t.weight, Tried: t.try, Other: w.first | w.holds, Call: clockNow(), TTL: int64(t.ttl)}
	w.log(e)
	return e
}

// refused logs the error of the call e.
func (w *worker) refused(ctx context.Context, e Event, err error) {
	e.Op, e.Err = Refused, class(err)
	w.log(e)
	if e.Err != "held" {
		pause(ctx, 20*time.Millisecond)
	}
}

// bundled logs the grant of the call e. The names are those that the history shows.
func (w *worker) bundled(e Event, got locks, t turn, fence uint64, names ...string) *bundle {
	b := &bundle{locks: got, worker: w, turn: t}
	e.Op, e.Fence, e.At, e.Until = Acquired, fence, clockNow(), claim(got)
	for _, e.Name = range names {
		w.holds++
		e.Hold = w.first | w.holds
		w.log(e)
		b.events = append(b.events, Event{Name: e.Name, Hold: e.Hold, TTL: e.TTL, Fence: fence})
	}
	context.AfterFunc(got.Context(), func() {
		if !b.over.Load() {
			b.log(Lost, 0, class(context.Cause(got.Context())))
		}
	})
	return b
}

// log logs an event for each hold of the bundle.
func (b *bundle) log(op Op, call int64, err string) {
	at, until := clockNow(), claim(b.locks)
	for _, e := range b.events {
		e.Op, e.Call, e.At, e.Until, e.Err = op, call, at, until, err
		b.worker.log(e)
	}
}

// check asks the store about all locks.
func (b *bundle) check() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	call := clockNow()
	err := b.Check(ctx)
	b.log(Verified, call, class(err))
}

// use works under the locks of the bundle, and releases them.
func (b *bundle) use(fenced bool) {
	w, first := b.worker, &b.events[0]
	value := Value{}
	if fenced {
		value = w.monitor.Read(first.Name, first.Fence)
	}
	if pause(b.Context(), b.hold); b.verify {
		b.check()
	}
	if until := claim(b.locks); fenced && until != 0 {
		w.monitor.Write(Write{Name: first.Name, Fence: first.Fence, Value: value, Until: until, Worker: w.id, Hold: first.Hold})
	}
	b.over.Store(true)
	call := clockNow()
	b.log(Begun, call, string(Released))
	b.log(Released, call, class(b.Release()))
}
