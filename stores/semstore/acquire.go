package semstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// The sum of these two times is less than driver.MaxSilence.
const (
	acquirePatience = time.Second     // a try ends after this time if other programs keep removing and making the semaphore
	guardPatience   = 2 * time.Second // a try ends after this time if another program is opening the semaphore
)

// Acquire implements driver.Store. It makes one try. Normally the try takes some microseconds. It
// may wait up to 2 seconds for a program that is opening the semaphore.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	key, err := s.check(&r)
	if err != nil {
		return driver.Grant{}, err
	}
	of := storekit.IDOf(r.Name, r.Token.Text())
	end, err := s.beginCall(ctx, of)
	if err != nil {
		return driver.Grant{}, err
	}
	defer end()
	if h := s.find(of); h != nil && s.claim(h) {
		return driver.Grant{}, nil
	}
	set, err := s.try(ctx, key, r.Name)
	if err != nil {
		return driver.Grant{}, err
	}
	s.add(&hold{id: of, name: r.Name, set: set, holder: r.Holder, since: time.Now()})
	return driver.Grant{}, nil
}

func (s *Store) check(r *driver.Request) (key int32, err error) {
	switch err := r.Validate(&guarantees); {
	case err != nil:
		return 0, err
	case r.Shared:
		return 0, fmt.Errorf("shared holds: a semaphore has none: %w", errors.ErrUnsupported)
	case r.Replaces.Text() != "":
		return 0, fmt.Errorf("hand-over: a hold on a semaphore belongs to its process: %w", errors.ErrUnsupported)
	}
	return s.keyOf(r.Name)
}

// keyOf returns the key of a name. It returns an error for the key 0: each call with that key makes
// a new semaphore, so the lock would exclude nobody.
func (s *Store) keyOf(name string) (int32, error) {
	key := s.config.key(name)
	switch {
	case key == 0 && s.hash == NoHash:
		return 0, storekit.Invalidf("the name %q is not a whole number of 32 bits such as 1 (0 is the key of no semaphore), and hash=none takes the number for the key", name)
	case key == 0:
		return 0, storekit.Invalidf("name: the %v of %q begins with four zero bytes, which are the key of no semaphore; rename the lock", s.hash, name)
	}
	return key, nil
}

// Location implements driver.Places. It returns the key of the semaphore, 32 bits of a hash.
// With NoHash it is the name.
func (s *Store) Location(name string) (string, error) {
	if err := driver.CheckName(name, &guarantees); err != nil {
		return "", err
	}
	key, err := s.keyOf(name)
	return strconv.FormatInt(int64(key), 10), err
}

// claim reports whether h is still held. If h is a reservation, claim first turns it into an
// ordinary hold.
func (s *Store) claim(h *hold) bool {
	s.mu.Lock()
	if s.holds[h.id] != h {
		s.mu.Unlock()
		return false
	}
	if h.reserved != nil {
		h.reserved.Stop()
		h.reserved = nil
	}
	s.mu.Unlock()
	return s.live(h)
}

// try makes one try and returns the id of the semaphore set whose lock it took.
func (s *Store) try(ctx context.Context, key int32, name string) (set int, err error) {
	checkEnd := func() error { return s.endedEarly(ctx) }
	for end := time.Now().Add(acquirePatience); ; {
		set, err = s.join(key, guardPatience, checkEnd)
		if err == nil {
			err = takeLock(set)
		}
		switch {
		case err == nil:
			return set, nil
		case err == errBusy:
			held := s.heldError(set, name)
			s.leaveSet(set)
			return 0, held
		case err != errRemoved:
			return 0, err
		case time.Now().After(end):
			return 0, &driver.HeldError{Waiters: -1} // others take and free the lock all the time
		}
		if err := checkEnd(); err != nil {
			return 0, err
		}
	}
}

// heldError returns the error that names the holder of a set's lock.
func (s *Store) heldError(set int, name string) error {
	held := &driver.HeldError{Waiters: s.countWaiters(set)}
	h, other := s.occupant(set)
	held.Holds = []driver.Hold{h}
	if other != "" && other != name {
		return fmt.Errorf("%w: the name %q has the same semaphore, because the hashes of both agree; rename one of them", held, other)
	}
	return held
}

// occupant returns the holder of a set that is held. If this store is the holder, occupant also
// returns the name of the lock, otherwise "".
func (s *Store) occupant(set int) (h driver.Hold, name string) {
	pid := holder(set, semLock)
	if pid != os.Getpid() {
		return driver.Hold{Holder: driver.Holder{PID: pid}, Foreign: isForeign(set)}, ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.bySet[set]
	if mine == nil { // another store of this process has the lock
		return driver.Hold{Holder: driver.Holder{PID: pid}}, ""
	}
	return storekit.HoldOf(mine.holder, false, mine.since), mine.name
}

// countWaiters returns how many waiters, of all programs, wait in the kernel. It returns -1 if the
// waiters of this store do not wait there.
func (s *Store) countWaiters(set int) int {
	if s.config.threads == 0 {
		return -1
	}
	n, err := waiters(set, semLock)
	if err != nil {
		return -1
	}
	return n
}
