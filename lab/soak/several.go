package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
)

// sharedNames is the number of names that all workers share. A worker takes one of them together
// with two names of its own.
const sharedNames = 2

// severalReleased marks one of the violations of I11: a name is still held although the locks were
// released without an error. The text of the violation begins with it.
const severalReleased = "AcquireAll's locks were released"

// severalNames returns the three names that a worker takes together, in the order in which
// AcquireAll takes them. Only this worker uses the first and the last name. All workers want the
// middle name. The second argument is the result of [ownName].
func severalNames(prefix, own string, middle int) []string {
	id := strings.TrimPrefix(own, prefix)
	return []string{prefix + "several:a:" + id, middleName(prefix, middle), prefix + "several:z:" + id}
}

func middleName(prefix string, i int) string { return fmt.Sprintf("%sseveral:m:%d", prefix, i) }

// takeSeveral takes several names together, works, and releases them. Only this worker uses the
// first and the last of these names. Both must be free when takeSeveral has ended, even if it did
// not get all names.
func (w *worker) takeSeveral(ctx context.Context, t turn) {
	prefix := w.dice.load.Prefix
	names := severalNames(prefix, w.dice.own, w.dice.IntN(sharedNames))
	opts := []padlock.Option{padlock.TTL(t.ttl), padlock.Wait(w.dice.between(0, 50*time.Millisecond))}
	if t.fixed {
		opts = append(opts, padlock.NoRenewal())
	}
	begun := clockNow()
	for _, name := range names {
		w.log(Event{Op: Asked, Call: begun, At: begun, Name: name})
	}
	all, err := w.locker.AcquireAll(ctx, []string{names[2], names[0], names[1], names[0]}, opts...)
	if err != nil {
		w.severalRefused(ctx, begun, t, names, err)
		return
	}
	var holds []*held
	for _, name := range names {
		lock := all.Lock(name)
		if fence := all.Fences()[name]; fence != lock.Fence() {
			w.log(Event{Op: Broken, Name: name, Err: fmt.Sprintf("I11 Fences returns %d, and the lock has the fence %d", fence, lock.Fence())})
		}
		holds = append(holds, w.got(Event{Op: Acquired, Call: begun}, lock, t))
	}
	for _, h := range holds {
		w.change(h)
	}
	if w.releaseSeveral(all, holds) == nil {
		w.mustBeFree(ctx, begun, t, names, severalReleased)
	}
}

// severalRefused logs a refusal. AcquireAll must then have left nothing behind, unless the outcome
// of a request is unknown.
func (w *worker) severalRefused(ctx context.Context, begun int64, t turn, names []string, err error) {
	t.try = true // the worker waited for all names together, so the log must not show a wait for one name
	if held := errors.Is(err, padlock.ErrHeld) && !errors.Is(err, padlock.ErrUncertain); held {
		t.name = names[1]
		w.logRefusal(ctx, begun, t, err)
		w.mustBeFree(ctx, begun, t, names, "AcquireAll was refused")
		return
	}
	for _, t.name = range names {
		w.logRefusal(ctx, begun, t, err)
	}
}

// mustBeFree takes the two names that only this worker uses, and logs a violation if one is held.
func (w *worker) mustBeFree(ctx context.Context, begun int64, t turn, names []string, why string) {
	for _, name := range []string{names[0], names[2]} {
		if h := w.takeFree(ctx, name, t, Event{Call: begun, Err: "I11 " + why + ", and this name is held all the same"}, true); h != nil {
			w.release(h)
		}
	}
}

// releaseSeveral releases locks that were taken together.
func (w *worker) releaseSeveral(all *padlock.Locks, holds []*held) error {
	var events []Event
	for _, h := range holds {
		h.over.Store(true)
		w.logBegin(h, Released)
		events = append(events, Event{Op: Released, Name: h.Name(), Hold: h.id, Call: clockNow(), Until: claim(h.Lock)})
	}
	err := all.Release()
	for _, e := range events {
		e.At, e.Err = clockNow(), class(errorFor(e.Name, err))
		w.log(e)
	}
	return err
}

// errorFor returns the part of a joined error that is about a name, or nil.
func errorFor(name string, err error) error {
	if of, ok := err.(*padlock.Error); ok && of.Name == name {
		return err
	}
	if parts, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range parts.Unwrap() {
			if found := errorFor(name, part); found != nil {
				return found
			}
		}
	}
	return nil
}
