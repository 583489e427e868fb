package padlock

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Release gives the lock back, and with it ends Context. It takes no context:
// a cancelled caller must release too. It stops renewal first and waits for
// one under way, and returns within about 15 seconds also if the store is
// silent.
//
// Nil means that the lock was held until now. ErrExpired: the lease had run
// out, and nobody took the lock meanwhile. ErrLost: somebody did, or it cannot
// be told. ErrMaxHold: the time of MaxHold was over before. ErrUncertain or
// ErrUnavailable: the store did not confirm; the release is tried again in the
// background until the lease has ended. It never removes anybody else's lock.
//
// A second Release does nothing and returns what the first did. Only an
// invalid cool-down (ErrInvalid, errors.ErrUnsupported) leaves the lock held.
func (h *Lock) Release(opts ...ReleaseOption) error {
	set := releaseSettings{coolDown: h.coolDown}
	for _, o := range opts {
		o.applyRelease(&set)
	}
	if set.coolDown != 0 {
		if err := driver.CheckKeep("CoolDown", set.coolDown, &h.locker.guarantees); err != nil {
			return failed("release", h.name, err)
		}
	}
	// A second caller waits here for the first.
	h.releasing.Lock()
	defer h.releasing.Unlock()
	if !h.released {
		h.released = true
		if err := h.release(set.coolDown); err != nil {
			h.releaseErr = failed("release", h.name, err)
		}
	}
	return h.releaseErr
}

func (h *Lock) release(keep time.Duration) error {
	l := h.locker
	l.mu.Lock()
	before := h.cause
	l.keeper.remove(h)
	if h.renewing != nil {
		ctx, cancel := context.WithTimeout(context.Background(), driver.MaxSilence)
		h.joinRenewal(ctx)
		cancel()
		if before == nil {
			before = h.cause // that renewal found it lost
		}
	}
	l.end(h, ErrReleased)
	l.unlock()
	if h.bound != nil {
		h.bound()
	}
	out, unsure, err := l.releaseAtStore(cleanUp{h.name, h.token, keep})
	err = verdict(before, out, unsure, err)
	if l.cfg.onEvent != nil {
		l.cfg.onEvent(Event{
			Kind: EventReleased, Name: h.name, Shared: h.Shared(), Fence: h.Fence(),
			Took: l.clock.Now().Sub(h.grantedAt), Err: err,
		})
	}
	return err
}

// releaseAtStore asks until the store answers, a few times; then the rest is a
// clean-up. unsure says that an earlier request may have done it.
func (l *Locker) releaseAtStore(c cleanUp) (out driver.Outcome, unsure bool, err error) {
	for i := 0; ; i++ {
		out, err = l.store.Release(context.Background(), c.name, c.token, c.keep)
		if err == nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrInvalid) {
			return out, unsure, err
		}
		unsure = unsure || !errors.Is(err, ErrUnavailable)
		if i == len(retryAfter) || l.sleep(context.Background(), retryAfter[i]) != nil {
			break
		}
	}
	l.cleaner.add(c, l.cfg.defaults.ttl)
	if !definite(err) && !errors.Is(err, ErrUncertain) {
		err = &joined{ErrUncertain, err}
	}
	return out, unsure, err
}

// verdict is what Release says: before is why the lock was over already, or
// nil.
func verdict(before error, out driver.Outcome, unsure bool, err error) error {
	switch {
	case err != nil:
		return err
	case out == driver.Taken:
		return ErrLost
	case out == driver.Expired:
		return ErrExpired
	case out == driver.Gone && !(unsure && before == nil):
		// Within the lease nobody else can have taken it: there a Gone after
		// a lost reply is the work of the first request.
		return ErrLost
	case errors.Is(before, ErrMaxHold):
		return ErrMaxHold
	case before != nil:
		return ErrExpired // the holder had to stop, and nobody had come yet
	}
	return nil
}
