package memstore

import (
	"slices"

	"github.com/padlock-go/padlock/driver"
)

// isBusy reports whether e is held, waited for or cooling down.
func (e *entry) isBusy(now moment) bool {
	return len(e.queue)+len(e.watchers) > 0 || !e.Idle(now.Now)
}

// blocked reports whether r must wait for a holder, a cool-down, the promotion of a reader, or an
// earlier waiter. It is called for a request whose token has no hold.
func (e *entry) blocked(r *driver.Request, now moment) bool {
	return len(e.queue) > 0 || e.Excludes(r.Token.Text(), r.Shared, now.Now)
}

// countWaiters adds the number of waiters to the error of a request that was refused.
func (e *entry) countWaiters(err error) error {
	if held, ok := err.(*driver.HeldError); ok {
		held.Waiters = len(e.queue)
	}
	return err
}

// leaveQueues removes token from the queue and the watchers. It returns the waiter, or nil.
func (e *entry) leaveQueues(token string) (left *waiter) {
	for _, list := range []*[]*waiter{&e.queue, &e.watchers} {
		if i := slices.IndexFunc(*list, func(w *waiter) bool { return w.r.Token.Text() == token }); i >= 0 {
			left = (*list)[i]
			*list = slices.Delete(*list, i, i+1)
		}
	}
	return left
}
