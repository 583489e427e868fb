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
	lookEvery           time.Duration
	onError             func(error)
}

// LockOptions sets how the lock is taken. TTL is how long a dead leader keeps the lead. Label
// appears in Leader. MaxHold limits how long a candidate leads: after that time the function's
// context ends. Wait has no effect. Shared and Slots make several candidates lead at the same time,
// so do not use them.
func LockOptions(opts ...padlock.Option) Option {
	return func(s *settings) { s.lock = append(s.lock[:len(s.lock):len(s.lock)], opts...) }
}

// BackOff sets the shortest and the longest pause before a new campaign. The shortest pause is the
// one after the first error. Each pause has a random part. The defaults are DefaultBackOff and
// DefaultMaxBackOff. A value of 0 or less leaves the default.
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

// LookEvery sets how often Changes asks the store, if d is above 0. The default is
// DefaultLookEvery.
func LookEvery(d time.Duration) Option {
	return func(s *settings) {
		if d > 0 {
			s.lookEvery = d
		}
	}
}

// OnError makes Run call f with an error in three cases: the function that leads returned the
// error, a campaign failed, or the work is finished but the lock could not be released. Run waits
// for f. If f is nil, OnError does nothing.
func OnError(f func(error)) Option {
	return func(s *settings) {
		if f != nil {
			s.onError = f
		}
	}
}
