// Package certmagiclock puts the locks of padlock into a storage of certmagic:
// many servers then ask for each certificate once. It does not import certmagic. Its methods are
// those of certmagic's Locker, TryLocker and LockLeaseRenewer.
//
// Use it if several processes, on one machine or on many, share the storage of certmagic, and its
// own locks are files or none at all. A process that is alone does not need it.
//
//	// inner is one level deeper than Locks, so that the methods of Locks win.
//	type inner struct{ certmagic.Storage }
//
//	type storage struct {
//		inner
//		*certmagiclock.Locks
//	}
//
//	certmagic.Default.Storage = storage{inner{files}, certmagiclock.New(locker)}
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
)

// Prefix is the beginning of the names of all locks.
const Prefix = "certmagic:"

// Locks has the methods by which certmagic locks a name. It is safe for concurrent use.
//
// The lease is renewed while the process lives, and ends soon after the process has died: after the
// TTL of the lock, which certmagic cannot change. On files there is no lease: the lock ends with
// the process, and a process that is paused keeps it. If others must get the lock of a process that
// is paused, give New padlock.Detached: then the lock has a lease on files, too.
type Locks struct {
	locker *padlock.Locker
	opts   []padlock.Option

	mu   sync.Mutex
	held map[string][]*padlock.Lock // the oldest first; all but the last were lost
}

// New returns Locks that take their locks from l, with the given options.
func New(l *padlock.Locker, opts ...padlock.Option) *Locks {
	return &Locks{locker: l, opts: slices.Clone(opts), held: make(map[string][]*padlock.Lock)}
}

// Lock takes the lock on name, and waits for it until ctx ends, or as long as padlock.Wait allows.
func (s *Locks) Lock(ctx context.Context, name string) error {
	lock, err := s.locker.Acquire(ctx, Prefix+name, s.opts...)
	if err != nil {
		return err
	}
	s.keep(name, lock)
	return nil
}

// TryLock takes the lock on name if it is free, and reports whether it has taken it.
func (s *Locks) TryLock(ctx context.Context, name string) (bool, error) {
	lock, err := s.locker.TryAcquire(ctx, Prefix+name, s.opts...)
	if errors.Is(err, padlock.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.keep(name, lock)
	return true, nil
}

func (s *Locks) keep(name string, lock *padlock.Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = append(s.held[name], lock)
}

// Unlock releases the lock on name. It returns an error only if this process has no lock on name. A
// lock that was lost counts as released, because there is nothing left that certmagic could do; the
// Locker logs the loss if it has a padlock.Logger. If the store cannot be reached, the Locker
// releases the lock in the background.
//
// certmagic names no owner. If the lock was lost, another goroutine of this process may have taken
// it anew before its first owner unlocks it. So Unlock releases the oldest lock on name.
func (s *Locks) Unlock(_ context.Context, name string) error {
	s.mu.Lock()
	locks := s.held[name]
	if len(locks) == 0 {
		s.mu.Unlock()
		return notLocked(name)
	}
	oldest := locks[0]
	if len(locks) == 1 {
		delete(s.held, name)
	} else {
		s.held[name] = locks[1:]
	}
	s.mu.Unlock()
	_ = oldest.Release() // the lock is over after every error
	return nil
}

// RenewLockLease makes sure that this process holds the lock on name. certmagic calls it before
// each try to obtain a certificate. If the lock was lost since the last try, RenewLockLease takes
// it again, and returns padlock.ErrHeld if another server has it. certmagic then waits for its next
// try. It never calls Lock again, so without this a single loss would fail all of its tries, for 30
// days. If the store cannot be reached and the lease still lasts, RenewLockLease returns nil.
//
// It does not extend the lease. certmagic asks for a lease that lasts until its next try is over,
// which may be days, and a server that crashed would keep the name for so long. padlock renews a
// short lease all the time instead.
//
// certmagic names no owner here either. If this process has several locks on name, because the
// older ones were lost, the youngest one counts for all owners. So after a loss two goroutines of
// one process may ask for the same certificate.
func (s *Locks) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	locks := s.held[name]
	if len(locks) == 0 {
		s.mu.Unlock()
		return notLocked(name)
	}
	youngest := locks[len(locks)-1]
	s.mu.Unlock()
	if youngest.Check(ctx) == nil || youngest.Context().Err() == nil {
		return nil
	}
	// The lease ends here a little earlier than in the store.
	_ = youngest.Release(padlock.CoolDown(0))
	lock, err := s.locker.TryAcquire(ctx, Prefix+name, s.opts...)
	if err != nil {
		return err
	}
	if !s.replace(name, youngest, lock) { // Unlock has been called meanwhile
		_ = lock.Release()
		return notLocked(name)
	}
	return nil
}

// replace puts lock in the place of old, and reports whether old was still there.
func (s *Locks) replace(name string, old, lock *padlock.Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.held[name], old)
	if i >= 0 {
		s.held[name][i] = lock
	}
	return i >= 0
}

func notLocked(name string) error {
	return fmt.Errorf("certmagiclock: %q is not locked by this process", name)
}
