package soak

import (
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/newest"
)

// newestNames is how many names are for callers of package newest.
const newestNames = 2

func newestName(prefix string, i int) string { return fmt.Sprintf("%snewest:%d", prefix, i) }

// newestWait is longer than the turns of all other callers together.
const newestWait = 30 * time.Second

// newestLocker returns the Locker for package newest. The marks of its callers have the longest lease
// of the run, so that a caller that was killed holds nobody up for longer.
func (o *order) newestLocker(store driver.Store) *padlock.Locker {
	return padlock.New(store, padlock.KeepStoreOpen(), padlock.TTL(o.Load.MaxTTL), padlock.Observe(arrivals{}))
}

// A newestCaller is a caller of package newest. It is a value of the context.
type newestCaller struct {
	*worker
	name string
	id   int64
}

type arrivalKey struct{}

// arrivals notes the number of each arrival, and that an arrival has got the lock, even if it gives
// the lock up because a newer caller waits.
type arrivals struct{}

func (arrivals) Observe(ctx context.Context, e padlock.Event) {
	a, ok := ctx.Value(arrivalKey{}).(*newestCaller)
	if !ok || e.Kind != padlock.EventAcquired {
		return
	}
	switch e.Name {
	case fast.NewestName(a.name, "number"):
		a.log(Event{Op: Arrived, Name: a.name, Other: a.id, Fence: e.Fence})
	case a.name:
		a.log(Event{Op: Entered, Name: a.name, Other: a.id, Fence: e.Fence})
	}
}

// comeAnew has turns as the newest caller until ctx ends or the run is over. The last turn is not
// given up then: the last caller that lives must run.
func (w *worker) comeAnew(ctx context.Context, l *padlock.Locker) {
	for ctx.Err() == nil && !w.monitor.Over() {
		t := turn{
			name: newestName(w.dice.load.Prefix, w.dice.IntN(newestNames)), ttl: w.dice.draw().ttl, wait: newestWait,
			hold: w.dice.between(0, 800*time.Millisecond), manner: manner(w.dice.IntN(int(manners))),
		}
		if w.dice.percent(25) {
			t.cancel = w.dice.between(1, 3*time.Second)
		}
		w.arrive(context.WithoutCancel(ctx), l, t)
		pause(ctx, w.dice.between(0, 600*time.Millisecond))
	}
}

// arrive has one turn.
func (w *worker) arrive(ctx context.Context, l *padlock.Locker, t turn) {
	w.holds++
	a := &newestCaller{w, t.name, w.first | w.holds}
	ctx = context.WithValue(ctx, arrivalKey{}, a)
	if t.cancel > 0 {
		short, cancel := context.WithTimeout(ctx, t.cancel)
		defer cancel()
		ctx = short
	}
	begun := w.logAsk(t.name, 0)
	lock, err := newest.Acquire(ctx, l, t.name, t.options()...)
	if err != nil {
		w.log(Event{Op: Refused, Call: begun, Name: t.name, Other: a.id, TTL: int64(t.ttl), Err: class(err)})
		return
	}
	h := w.got(Event{Op: Acquired, Call: begun, Other: a.id}, lock, t)
	w.change(h)
	w.release(h)
}
