package election

import (
	"time"

	"github.com/padlock-go/padlock"
)

// Option sets how a candidate campaigns.
type Option func(*settings)

type settings struct {
	lock                []padlock.Option
	backOff, maxBackOff time.Duration
	onError             func(error)
	heeds, ranked       bool // see ResignWhenAsked, Rank
	rank                int
	leastTerm           time.Duration
}

// LockOptions sets the options with which Run takes the lock:
//
//   - padlock.TTL: how long a leader that is dead or paused keeps the lead
//   - padlock.Detached: on files the lead belongs to the leader's process: a dead leader loses it
//     at once, and a paused one keeps it without end. Detached gives it a lease instead
//   - padlock.Label: a text that Leader shows
//   - padlock.HoldAtMost: how long a candidate may lead; then the context of its function ends
//
// padlock.Wait has no effect. With padlock.Shared or padlock.Slots, Run returns padlock.ErrInvalid,
// because several candidates would lead at the same time. That is also true if they are defaults of
// the Locker. The default is the options of the Locker. Do not give padlock.Token: all candidates
// with one token would lead.
func LockOptions(opts ...padlock.Option) Option {
	return func(s *settings) { s.lock = append(s.lock[:len(s.lock):len(s.lock)], opts...) }
}

// BackOff sets the shortest and the longest pause before a new campaign. The shortest pause is the
// one after the first error. Each pause has a random part. The defaults are DefaultBackOff and
// DefaultMaxBackOff. The times are above 0; otherwise the default stays, and there is no error.
func BackOff(shortest, longest time.Duration) Option {
	return func(s *settings) {
		if shortest > 0 {
			s.backOff = shortest
		}
		if longest > 0 {
			s.maxBackOff = longest
		}
	}
}

// OnError makes Run call f with each error that does not end Run: an error of the function that
// leads, of a campaign, or of the release of the lock. Run waits for f. If f is nil, OnError does
// nothing. By default, nobody learns of these errors.
func OnError(f func(error)) Option {
	return func(s *settings) {
		if f != nil {
			s.onError = f
		}
	}
}
