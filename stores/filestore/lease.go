package filestore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// acquireLease tries once to get a detached hold.
func (s *Store) acquireLease(f *file, r *driver.Request) (g driver.Grant, err error) {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	if h := f.find(r.Token.Text()); h != nil {
		live, err := s.verify(f, h)
		switch {
		case err != nil:
			return driver.Grant{}, err
		case live && h.reserved == nil: // an earlier Acquire took an ordinary hold with this token
			return driver.Grant{Fence: h.fence, Shared: h.shared}, nil
		case live:
			return s.claimLease(f, h, r, b)
		}
	}
	var m manners
	lock := s.lockExclusive
	if r.Replaces.Text() != "" {
		lock = s.lockLease
	}
	err = s.insist(f, func() error {
		c, err := lock(f, func(c *conn) error {
			g, err = s.grantLease(f, c, r, b, &m)
			return err
		})
		if err == nil {
			c.unlock()
			f.keepSpare(c)
		}
		return err
	})
	return g, err
}

// claimLease turns the reservation h into a detached hold. It writes the lease into the file, and
// then frees the kernel's lock, which the reservation had.
func (s *Store) claimLease(f *file, h *hold, r *driver.Request, b *buffer) (driver.Grant, error) {
	rec := b.read(h.conn)
	if err := rec.hands(f.path); err != nil {
		return driver.Grant{}, err
	}
	g, err := s.writeLease(f, h.conn, r, b, h.fence)
	if err != nil {
		return driver.Grant{}, err
	}
	h.claim()
	f.forget(h)
	h.conn.unlock()
	f.keepSpare(h.conn)
	return g, nil
}

// grantLease grants a detached hold if the record allows it. The caller has the kernel's lock.
func (s *Store) grantLease(f *file, c *conn, r *driver.Request, b *buffer, m *manners) (driver.Grant, error) {
	rec, wall := b.read(c), s.config.wall()
	if err := rec.hands(f.path); err != nil {
		return driver.Grant{}, err
	}
	if left, ok := rec.hasLease(r.Token.Text(), wall); ok && left > 0 {
		return s.writeLease(f, c, r, b, rec.fence)
	}
	if r.Replaces.Text() != "" {
		if left, ok := rec.hasLease(r.Replaces.Text(), wall); !ok || left == 0 {
			return driver.Grant{}, fmt.Errorf("%w: the lease to be replaced is over", driver.ErrLost)
		}
	} else {
		if no := admit(rec, wall); no != nil {
			return driver.Grant{}, no
		}
		if no := s.yield(c, false, m); no != nil {
			return driver.Grant{}, no
		}
	}
	fence, _, err := mint(rec.fence, r.FenceAbove, false, wall)
	if err != nil {
		return driver.Grant{}, err
	}
	return s.writeLease(f, c, r, b, fence)
}

// writeLease grants the request r: it writes a lease into the file. The lease lasts for r.TTL, or
// for the rest of the lease that the token already has if that is longer.
func (s *Store) writeLease(f *file, c *conn, r *driver.Request, b *buffer, fence uint64) (driver.Grant, error) {
	from, wall := s.config.clock.Now(), s.config.wall()
	ttl := r.TTL
	if left, ok := b.rec.hasLease(r.Token.Text(), wall); ok {
		ttl = max(ttl, left)
	}
	b.next = record{
		fence: fence, epoch: fence, cool: momentIn(ttl, wall), owner: ownerOf(&r.Holder, wall.UnixMicro()), name: bytesOf(f.name),
		lease: lease{sha256.Sum256([]byte(r.Token.Text()))},
	}
	if err := b.write(c); err != nil {
		return driver.Grant{}, unavailable(f.path, err)
	}
	return driver.Grant{Fence: fence, From: from, TTL: ttl}, nil
}

// changeLease changes the record of the lease that belongs to token. It locks the file, calls edit,
// and writes the record. It returns the descriptor, through which the file is still locked. If the
// record shows another holder or no holder, changeLease returns an error that says so.
func (s *Store) changeLease(f *file, token string, b *buffer, edit func(left time.Duration, wall time.Time) error) (*conn, error) {
	c, err := s.lockLease(f, func(c *conn) error {
		rec, wall := b.read(c), s.config.wall()
		if err := rec.hands(f.path); err != nil {
			return err
		}
		left, ok := rec.hasLease(token, wall)
		if !ok {
			return errNoSuchHold
		}
		if err := edit(left, wall); err != nil {
			return err
		}
		if err := b.write(c); err != nil {
			return unavailable(f.path, err)
		}
		return nil
	})
	if _, busy := err.(*refusal); busy {
		return nil, s.busyLease(f, token, b)
	}
	return c, err
}

// lockLease locks a file that has a lease or a cool-down, just as Store.lock does for other files.
// Normally, no process keeps such a file locked. But a process that checks whether the name is free
// locks the file for an instant, or for longer if the kernel suspends it just then. So lockLease
// tries up to ten times. The pauses between the tries double from one to the next, and take 0.2 s
// together.
func (s *Store) lockLease(f *file, whileLocked func(*conn) error) (*conn, error) {
	const tries = 10
	for i := range tries - 1 {
		c, err := s.lock(f, false, whileLocked)
		if no, refused := err.(*refusal); !refused || *no != (refusal{}) {
			return c, err
		}
		if err := s.pauseUnlocked(f, recordPause<<i); err != nil {
			return nil, err
		}
	}
	return s.lock(f, false, whileLocked)
}

// busyLease returns the error of a call that failed because another process keeps the file locked.
// While a file has a lease, no process that uses padlock keeps the file locked. So if the lease of
// token has not ended, the other process does not use padlock.
func (s *Store) busyLease(f *file, token string, b *buffer) error {
	if f.spare != nil {
		rec := b.read(f.spare)
		if rec.unread != nil {
			return unread(f.path, rec.unread)
		}
		if left, ok := rec.hasLease(token, s.config.wall()); !ok {
			return errNoSuchHold
		} else if left == 0 {
			return fmt.Errorf("%w: another process has the name", driver.ErrLost)
		}
	}
	return fmt.Errorf("%w: %s is locked by a program that does not know leases, such as flock(1) or PHP", driver.ErrUnavailable, f.path)
}

// extendLease does the work of Extend for a detached hold.
func (s *Store) extendLease(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	f, err := s.beginCall(ctx, name)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.endCall(f)
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	if ttl == 0 {
		return s.verifyLease(f, token, b)
	}
	var g driver.Grant
	c, err := s.changeLease(f, token, b, func(left time.Duration, wall time.Time) error {
		if left == 0 {
			return errNoSuchHold
		}
		g = driver.Grant{Fence: b.rec.fence, From: s.config.clock.Now(), TTL: max(left, ttl)}
		b.next = b.rec
		b.next.cool = momentIn(g.TTL, wall)
		return nil
	})
	if err != nil {
		return driver.Grant{}, err
	}
	c.unlock() // the name stays taken, so no waiter is woken
	f.keepSpare(c)
	return g, nil
}

// verifyLease checks that a lease still exists, and returns how long it still lasts. It only reads
// the file, and takes no lock. If the ttl of Extend is 0, Extend calls only verifyLease.
func (s *Store) verifyLease(f *file, token string, b *buffer) (driver.Grant, error) {
	if err := s.refresh(f); err != nil {
		return driver.Grant{}, err
	}
	from, wall := s.config.clock.Now(), s.config.wall()
	rec := b.read(f.spare)
	for i := 0; !rec.valid && !rec.newer && !rec.foreign && b.got > 0 && i < recordTries; i++ {
		time.Sleep(recordPause) // another process may be writing the record
		rec = b.read(f.spare)
	}
	if err := rec.hands(f.path); err != nil {
		return driver.Grant{}, err
	}
	left, ok := rec.hasLease(token, wall)
	switch {
	case !ok:
		return driver.Grant{}, errNoSuchHold
	case left == 0:
		return driver.Grant{}, errNoSuchHold
	}
	return driver.Grant{Fence: rec.fence, From: from, TTL: left}, nil
}

// releaseLease is Release for a detached hold.
func (s *Store) releaseLease(f *file, token string, keep time.Duration) (driver.Outcome, error) {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	outcome := driver.OutcomeReleased
	c, err := s.changeLease(f, token, b, func(left time.Duration, wall time.Time) error {
		b.next = b.rec
		b.next.lease = lease{}
		if left == 0 {
			outcome = driver.OutcomeGone
			return nil
		}
		b.next.cool = moment{}
		if keep > 0 {
			b.next.cool = momentIn(keep, wall)
		}
		return nil
	})
	switch {
	case err == errNoSuchHold:
		return driver.OutcomeGone, nil
	case err != nil:
		return driver.OutcomeGone, err
	}
	s.giveBack(f, c)
	return outcome, nil
}
