package padlock

import (
	"context"
	"reflect"
)

// joinContexts returns a context with the values of ctx, which ends when ctx or over ends.
func joinContexts(ctx, over context.Context) (context.Context, context.CancelFunc) {
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(over, func() { cancel(context.Cause(over)) })
	if over.Err() != nil { // AfterFunc calls its function in a goroutine, which may be late
		cancel(context.Cause(over))
	}
	return joinedUntil{joined, over, cancel}, func() {
		stop()
		cancel(nil)
	}
}

// joinedUntil is a context that ends with the context over. Err does not wait for the goroutine
// that ends it.
type joinedUntil struct {
	context.Context
	over   context.Context
	cancel context.CancelCauseFunc
}

func (c joinedUntil) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.over.Err() != nil {
		c.cancel(context.Cause(c.over))
	}
	return c.Context.Err()
}

// joinedContext is the context that was given to Join, together with the lock. Both may come from
// locks: lockFrom finds the one of Join, and heldIn finds all of them.
type joinedContext struct {
	context.Context
	lock *hold
}

type joinKey struct{}

func (c *joinedContext) Value(key any) any {
	switch key {
	case lockKey{}:
		return c.lock
	case joinKey{}:
		return c.Context
	}
	return c.Context.Value(key)
}

// locksIn calls f for each lock of ctx, until f returns true, and then returns true. It begins with
// inner, which is the innermost lock.
func locksIn(ctx context.Context, inner *hold, f func(*hold) bool) bool {
	for {
		for h := inner; h != nil; h = h.outer {
			if f(h) {
				return true
			}
		}
		before, ok := ctx.Value(joinKey{}).(context.Context)
		if !ok {
			return false
		}
		ctx, inner = before, lockFrom(before)
	}
}

// heldIn reports whether ctx comes from a lock on name in the store of l that is not over. inner is
// the innermost lock of ctx.
func (l *Locker) heldIn(ctx context.Context, inner *hold, name string) bool {
	return locksIn(ctx, inner, func(h *hold) bool { return h.name == name && h.endCause() == nil && l.sharesStore(h.locker) })
}

// sharesStore reports whether the locks of l and other are in the same store of this program.
func (l *Locker) sharesStore(other *Locker) bool {
	return l == other || l.store != nil && reflect.ValueOf(l.store).Comparable() && l.store == other.store
}

// Err looks at the clock itself. After a pause of the process or of the machine, the goroutine that
// asks may run before the renewer, which ends the context.
func (c lockContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	locksIn(c, c.lock, func(h *hold) bool {
		if h.usable.Load() != 0 && h.ranOut() {
			h.noticeEnd()
		}
		return false
	})
	return c.Context.Err()
}
