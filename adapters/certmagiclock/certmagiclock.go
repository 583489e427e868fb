// Package certmagiclock puts the locks of padlock into a storage of certmagic, and so of Caddy:
// many servers then ask for each certificate once. It does not import certmagic. Its methods are
// those of certmagic's Locker, TryLocker and LockLeaseRenewer.
//
// Use it if the storage of certmagic is shared by several servers, and its own locks are files on a
// network or none at all. A single server does not need it: certmagic's storage of files has locks
// of its own.
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
// TTL of the lock, which certmagic cannot change.
type Locks struct {
	locker *padlock.Locker
	opts   []padlock.Option

	mu   sync.Mutex
	held map[string][]*padlock.Lock // the oldest first; there are several if the older ones were lost
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
// lock that was lost counts as released, because certmagic tries to unlock a name again and again
// until Unlock returns nil; the Locker logs the loss. If the store cannot be reached, the Locker
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
	if len(locks) == 1 {
		delete(s.held, name)
	} else {
		s.held[name] = locks[1:]
	}
	s.mu.Unlock()
	_ = locks[0].Release() // the lock is over after every error
	return nil
}

// RenewLockLease reports whether the lock on name is still held: it returns padlock.ErrLost or
// padlock.ErrExpired if it is not. It does not extend the lease. certmagic asks for a lease that
// lasts until its next try is over, which may be days, and a server that crashed would keep the
// name for so long. padlock renews a short lease all the time instead.
func (s *Locks) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	locks := s.held[name]
	s.mu.Unlock()
	if len(locks) == 0 {
		return notLocked(name)
	}
	return locks[0].Check(ctx) // the oldest: its owner must hear of the loss, even if it is asked for a younger one
}

func notLocked(name string) error {
	return fmt.Errorf("certmagiclock: %q is not locked by this process", name)
}
