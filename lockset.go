package padlock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lockSet contains the holds that a call of AcquireAll or DoAll takes. The holds are nested as in
// nested calls of Do: hold.outer is the hold that was taken just before.
type lockSet struct {
	holds   []*hold  // in the order in which they were taken
	within  bool     // it is a call of DoAll
	paths   []string // with Paths: the names that the caller gave
	l       *Locker
	ctx     context.Context // the caller's
	mu      sync.Mutex      // guards lockCtx; it is locked before Locker.mu
	lockCtx context.Context // ends as soon as one hold is over; in DoAll, it also ends with ctx
}

// firstLoss returns the error of a hold that ended while s took the others, or nil.
func (s *lockSet) firstLoss() error {
	for _, h := range s.holds {
		if h.usable.Load() != 0 { // h is not over
			continue
		}
		s.l.mu.Lock()
		cause := h.cause
		s.l.mu.Unlock()
		if cause == ErrReleased { // Close has released the hold
			return failed(OpAcquire, h.name, ErrClosed)
		}
		return failed(OpHold, h.name, cause)
	}
	return nil
}

// innermost returns the hold that was taken last, or nil.
func (s *lockSet) innermost() *hold {
	if len(s.holds) == 0 {
		return nil
	}
	return s.holds[len(s.holds)-1]
}

// until returns a context that ends when ctx ends, or as soon as one of the holds of s is over.
func (s *lockSet) until(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	for _, h := range s.holds {
		h.whenOver(stop)
	}
	return ctx, stop
}

// withValues returns ctx with the values that observers added to the context of the innermost hold.
func (s *lockSet) withValues(ctx context.Context) context.Context {
	h := s.innermost()
	if h == nil {
		return ctx
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return lockContext{valuesBefore{ctx, context.WithoutCancel(h.from)}, h}
}

// valuesBefore is a context with two sources of values. Value looks in the context c.before, and
// then in the embedded Context. c.before must come from context.WithoutCancel. Otherwise
// context.Cause would return the cause of c.before instead of the cause of the embedded Context.
type valuesBefore struct {
	context.Context
	before context.Context
}

func (c valuesBefore) Value(key any) any {
	if v := c.before.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

func (s *lockSet) context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lockCtx == nil {
		ctx := s.ctx
		if !s.within {
			ctx = context.WithoutCancel(ctx)
		}
		ctx, _ = s.until(ctx) // no cancel is needed: the new context ends when the locks are released
		s.lockCtx = s.withValues(ctx)
	}
	return s.lockCtx
}

// rollBackPatience is how long a call of AcquireAll or DoAll that failed waits until the store has
// released the holds that it had taken. It is long enough for a store that replies, and short
// enough for a caller whose time is over.
const rollBackPatience = 250 * time.Millisecond

// withoutCoolDown is for the release of a hold that its caller never had.
var withoutCoolDown = []ReleaseOption{CoolDown(0)}

// abandon releases the holds of a call that failed. The cleaner releases those for which there is
// no reply after rollBackPatience.
func (s *lockSet) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), rollBackPatience)
	defer cancel()
	for i := len(s.holds) - 1; i >= 0; i-- {
		s.holds[i].giveUp(ctx, withoutCoolDown)
		if s.within {
			s.l.endCalls(1)
		}
	}
}

// giveUp releases all holds. If the store does not reply to the release of one hold, the cleaner
// releases the holds that are left. So a silent server delays giveUp only once.
func (s *lockSet) giveUp(opts []ReleaseOption) error {
	ctx, err := context.Background(), error(nil)
	if s.paths != nil && len(opts) > 0 {
		opts, err = nil, failed(OpRelease, "", errPathCool)
	}
	for i := len(s.holds) - 1; i >= 0; i-- {
		e := s.holds[i].giveUp(ctx, opts)
		if errors.Is(e, ErrUncertain) || errors.Is(e, ErrUnavailable) {
			ctx = ended
		}
		err = joinErrors(err, e)
	}
	return err
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
