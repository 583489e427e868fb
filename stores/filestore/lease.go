package filestore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// acquireLease tries to get a detached hold. If the token already has a reservation, acquireLease
// turns it into the detached hold; otherwise reserved is nil.
func (s *Store) acquireLease(ctx context.Context, f *file, r *driver.Request, reserved *hold) (g driver.Grant, err error) {
	shared, err := s.wantsShared(f, r, reserved)
	if err != nil {
		return driver.Grant{}, err
	}
	if shared {
		return s.acquireSharedLease(ctx, f, r, reserved)
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	var m manners
	grant := func(c *conn) (err error) {
		g, err = s.grantLease(f, c, r, b, reserved, &m)
		return err
	}
	if reserved != nil { // it has the kernel's lock, which a detached hold does without
		if err := grant(reserved.conn); err != nil {
			return driver.Grant{}, err
		}
		reserved.claim()
		f.forget(reserved)
		f.unlockSpare(reserved.conn)
		return g, nil
	}
	lock := s.lock
	if r.Replaces.Text() != "" {
		lock = s.lockLease
	}
	err = s.insist(f, func() error {
		c, err := lock(f, false, grant)
		if err == nil {
			f.unlockSpare(c)
		}
		return err
	})
	return g, err
}

// wantsShared reports whether a request for a detached hold gets a shared one, or renews or replaces
// one.
func (s *Store) wantsShared(f *file, r *driver.Request, reserved *hold) (bool, error) {
	if reserved != nil {
		return reserved.shared, nil
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	for _, token := range []driver.Token{r.Token, r.Replaces} {
		if token.Text() == "" {
			continue
		}
		if _, left, err := s.sharedLease(f, token.Text()); err != nil || left > 0 {
			return true, err
		}
		if left, _ := b.read(f.spare).hasLease(token.Text(), s.config.wall()); left > 0 {
			return false, nil
		}
	}
	return r.Shared, nil
}

// grantLease writes a lease for r into the file, if the record allows it. The caller has the
// kernel's lock. The lease lasts for r.TTL, or for the rest of the lease that the token already has
// if that is longer.
func (s *Store) grantLease(f *file, c *conn, r *driver.Request, b *buffer, reserved *hold, m *manners) (driver.Grant, error) {
	rec := b.read(c)
	if err := rec.hands(f.path); err != nil {
		return driver.Grant{}, err
	}
	from, wall := s.config.clock.Now(), s.config.wall()
	left, _ := rec.hasLease(r.Token.Text(), wall)
	fence := rec.fence // the token has this lease already
	if reserved != nil {
		fence = reserved.fence
	} else if left == 0 {
		var err error
		if fence, err = s.newLeaseFence(f, c, r, rec, m, wall); err != nil {
			return driver.Grant{}, err
		}
	}
	ttl := max(r.TTL, left)
	b.next.setDetached(f, r, fence, ttl, wall)
	if err := b.write(c); err != nil {
		return driver.Grant{}, unavailable(f.path, err)
	}
	return driver.Grant{Fence: fence, From: from, TTL: ttl}, nil
}

// newLeaseFence returns the fence of a new lease, if the record allows one.
func (s *Store) newLeaseFence(f *file, c *conn, r *driver.Request, rec *record, m *manners, wall time.Time) (uint64, error) {
	if r.Replaces.Text() != "" {
		if left, _ := rec.hasLease(r.Replaces.Text(), wall); left == 0 {
			return 0, fmt.Errorf("%w: the lease to be replaced is over", driver.ErrLost)
		}
	} else if err := rec.admits(f.path, false, wall); err != nil {
		return 0, err
	} else if no := s.yield(c, false, m); no != nil {
		return 0, no
	}
	fence, _, err := mint(rec.fence, r.FenceAbove, false, wall)
	return fence, err
}

// hasLease reports whether the record has a lease that belongs to token, and how much time is left
// of that lease.
func (r *record) hasLease(token string, wall time.Time) (left time.Duration, ok bool) {
	if !r.valid || !r.lease.taken() || r.lease.token != sha256.Sum256([]byte(token)) {
		return 0, false
	}
	return r.cool.timeLeft(wall), true
}

// changeLease changes the record of the lease that belongs to token. It locks the file, calls edit,
// and writes the record. It returns the descriptor, through which the file is still locked. If the
// record shows another holder or no holder, changeLease returns an error that says so.
func (s *Store) changeLease(f *file, token string, b *buffer, edit func(left time.Duration, wall time.Time) error) (*conn, error) {
	c, err := s.lockLease(f, false, func(c *conn) error {
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
	return errLeaseBusy(f.path)
}

// extendLease does the work of Extend for a detached hold.
func (s *Store) extendLease(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	f, err := s.beginCall(ctx, name)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.endCall(f)
	from := s.config.clock.Now()
	l, left, err := s.sharedLease(f, token)
	switch {
	case err != nil:
		return driver.Grant{}, err
	case left > 0 && ttl > 0:
		return s.extendSharedLease(ctx, f, token, ttl)
	case left > 0:
		return driver.Grant{Fence: l.id, From: from, TTL: left, Shared: true}, nil
	}
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
	f.unlockSpare(c) // the name stays taken
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
func (s *Store) releaseLease(ctx context.Context, f *file, token string, keep time.Duration) (driver.Outcome, error) {
	if _, left, err := s.sharedLease(f, token); err != nil {
		return driver.OutcomeGone, err
	} else if left > 0 {
		return s.releaseSharedLease(ctx, f, token, keep)
	}
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
