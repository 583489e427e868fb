package command

import (
	"context"
	"errors"
	"slices"

	"github.com/padlock-go/padlock"
)

// acquireFlags holds the flags of acquire.
type acquireFlags struct {
	shared, nonblock, path bool
	wait, ttl, atLeast     seconds
	conflict               exitStatus
	label, keyFile         string
}

func (set *acquireFlags) options() []padlock.Option {
	return append(acquireOptions(set.label, set.shared, set.nonblock, set.wait, set.ttl, set.atLeast), padlock.Detached())
}

// take takes the lock on name. With --path it also returns, before that lock, those on the folders.
func (set *acquireFlags) take(ctx context.Context, l *padlock.Locker, name string) ([]*padlock.Lock, error) {
	if !set.path {
		lock, err := l.Acquire(ctx, name, set.options()...)
		if err != nil {
			return nil, err
		}
		return []*padlock.Lock{lock}, nil
	}
	all, err := l.AcquireAll(ctx, []string{name}, append(set.options(), padlock.Paths())...)
	if err != nil {
		return nil, err
	}
	return locksOf(all), nil
}

// locksOf returns the locks of all, sorted by name. So each path stands behind its folders.
func locksOf(all *padlock.Locks) (locks []*padlock.Lock) {
	for _, name := range all.Names() {
		locks = append(locks, all.Lock(name))
	}
	return locks
}

// releaseEach releases the locks in reverse order.
func releaseEach(locks []*padlock.Lock) error {
	var failed error
	for _, lock := range slices.Backward(locks) {
		failed = errors.Join(failed, lock.Release())
	}
	return failed
}

// acquireOptions converts flags into options of Acquire. The commands "padlock run" and "padlock
// acquire" share these flags.
func acquireOptions(label string, shared, nonblock bool, wait, ttl, atLeast seconds) []padlock.Option {
	opts := []padlock.Option{padlock.Label(label), padlock.HoldAtLeast(atLeast.d)}
	if shared {
		opts = append(opts, padlock.Shared())
	}
	switch {
	case nonblock:
		opts = append(opts, padlock.Wait(0))
	case wait.given:
		opts = append(opts, padlock.Wait(wait.d))
	}
	if ttl.given {
		opts = append(opts, padlock.TTL(ttl.d))
	}
	return opts
}

// notTaken explains why a lock was not taken.
func (a *app) notTaken(set *acquireFlags, name string, err error) *failure {
	why := a.unsuccessful(name, "taken", err)
	if why.status != exitHeld {
		return why
	}
	why.status, why.note.Exit = int(set.conflict), int(set.conflict)
	if set.wait.d > 0 {
		why.note.Message += "; gave up after " + span(set.wait.d)
	}
	return why
}
