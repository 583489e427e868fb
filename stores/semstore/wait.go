package semstore

import (
	"context"
	"runtime"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

const (
	// reservation is how long a waiter may rely on a reservation. It is a little less than the time
	// after which the store releases the lock.
	reservation = driver.MaxReservation - 50*time.Millisecond

	guardForever = 24 * time.Hour // the longest wait for a program that is opening the semaphore

	kernelWait = time.Minute           // how long one system call waits for the lock
	nudgeEach  = time.Millisecond      // how often interrupt sends its signal
	watchEach  = 25 * time.Millisecond // how often watch looks at the lock
)

// Wait implements driver.Waiter. If reserve is true, the kernel hands the lock over, and the call
// occupies a thread until then; see MaxThreads. Waiters get the lock in no particular order.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	key, err := s.check(&r)
	if err != nil {
		return driver.Grant{}, err
	}
	end, err := s.beginCall(ctx, storekit.HoldID{})
	if err != nil {
		return driver.Grant{}, err
	}
	defer end()
	of := storekit.IDOf(r.Name, r.Token.Text())
	if h := s.find(of); h != nil && s.live(h) {
		return driver.Grant{}, nil // the token has the lock already
	}
	if !reserve {
		return driver.Grant{}, s.watch(ctx, key)
	}
	select {
	case s.threads <- struct{}{}:
		defer func() { <-s.threads }()
	default:
		return driver.Grant{}, s.watch(ctx, key)
	}
	set, err := s.sleep(ctx, key)
	if err != nil {
		return driver.Grant{}, err
	}
	h := &hold{id: of, name: r.Name, set: set, holder: r.Holder, since: time.Now()}
	if err := s.endedEarly(ctx); err != nil {
		_, _ = s.freeLock(h)
		return driver.Grant{}, err
	}
	g := driver.Grant{From: driver.SystemClock().Now(), TTL: reservation}
	s.reserve(h)
	return g, nil
}

// reserve keeps a lock for driver.MaxReservation, unless Acquire claims it earlier.
func (s *Store) reserve(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[h.id], s.bySet[h.set] = h, h
	h.reserved = time.AfterFunc(driver.MaxReservation, func() {
		if s.calls.Begin(context.Background()) != nil {
			return // Close releases it
		}
		defer s.calls.Work.Done()
		if s.unreserve(h) {
			_, _ = s.freeLock(h)
		}
	})
}

// unreserve drops a reservation. It returns false if the reservation was claimed or released.
func (s *Store) unreserve(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds[h.id] != h || h.reserved == nil {
		return false
	}
	delete(s.holds, h.id)
	delete(s.bySet, h.set)
	return true
}

// sleep waits in the kernel until this process has the lock that belongs to key. It returns the id
// of the semaphore set in which the lock is.
func (s *Store) sleep(ctx context.Context, key int32) (set int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer s.interrupt(ctx, threadID())()
	checkEnd := func() error { return s.endedEarly(ctx) }
	for {
		set, err = s.join(key, guardForever, checkEnd)
		if err == nil {
			err = s.awaitUntil(set, checkEnd)
		}
		if err != errRemoved {
			return set, err
		}
		if err := checkEnd(); err != nil {
			return 0, err
		}
	}
}

// awaitUntil waits for the lock of a set, until checkEnd returns an error. The caller has opened
// the set with join. If awaitUntil does not get the lock, it closes the set (leaveSet).
func (s *Store) awaitUntil(set int, checkEnd func() error) error {
	for {
		err := checkEnd()
		if err == nil {
			err = await(set, kernelWait)
		}
		switch err {
		case nil, errRemoved:
			return err
		case errBusy, errInterrupted:
			continue
		}
		s.leaveSet(set)
		return err
	}
}

// interrupt makes a waiter stop waiting in the kernel when ctx ends or the store is closed. It then
// sends signals to the waiter's thread, so that the thread's system calls return. It repeats the
// signal, because a signal that comes before a system call has no effect. When the waiter stops
// waiting, it must call stop. After stop has returned, the thread gets no more signals.
func (s *Store) interrupt(ctx context.Context, thread int) (stop func()) {
	awake, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case <-s.calls.Closing.Done():
		case <-awake:
			return
		}
		each := time.NewTicker(nudgeEach)
		defer each.Stop()
		for {
			nudge(thread)
			select {
			case <-awake:
				return
			case <-each.C:
			}
		}
	}()
	return func() {
		close(awake)
		<-ended
	}
}

// watch returns when the lock may be free. It does not take the lock.
func (s *Store) watch(ctx context.Context, key int32) error {
	each := time.NewTicker(watchEach)
	defer each.Stop()
	for {
		set, err := find(key, false)
		held := false
		if err == nil {
			held, err = s.isHeldBy(key, set)
		}
		if err != nil && err != errRemoved {
			return inSet(key, err)
		}
		if !held {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.calls.Closing.Done():
			return driver.ErrClosed
		case <-each.C:
		}
	}
}
