package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// sharedLease looks for a detached reader without taking a lock. If there is none, left is 0. It
// reads the records before the head, since a change writes a later end into the head first.
func (s *Store) sharedLease(f *file, token string) (found readerRecord, left time.Duration, err error) {
	if err := s.refresh(f); err != nil {
		return found, 0, err
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	if rec := b.read(f.spare); rec.valid && rec.mode != modeShared {
		return found, 0, nil
	}
	for i := 0; ; i++ {
		readers, damaged, err := readAllReaders(f.spare)
		rec := b.read(f.spare)
		rec.unread = cmp.Or(rec.unread, err)
		if err := rec.hands(f.path); err != nil {
			return found, 0, err
		}
		at, left := rec.findLease(readers, token, s.config.wall())
		if left > 0 || i == recordTries || !damaged && (rec.valid || b.got == 0) {
			return readers[at], left, nil
		}
		time.Sleep(recordPause) // another process may be writing
	}
}

// lockReaders takes the record lock and the kernel's shared lock, and calls change with the records.
// It returns the descriptor, through which the file is still locked.
func (s *Store) lockReaders(ctx context.Context, f *file, b *buffer, change func(c *conn, readers map[int]readerRecord) error) (*conn, error) {
	recordLock, err := s.lockRecord(ctx, f)
	if err != nil {
		return nil, err
	}
	defer recordLock.close()
	return s.lockLease(f, true, func(c *conn) error { return s.withReaders(f, c, b, change) })
}

func (s *Store) withReaders(f *file, c *conn, b *buffer, change func(c *conn, readers map[int]readerRecord) error) error {
	rec := b.read(c)
	if err := rec.hands(f.path); err != nil {
		return err
	}
	readers := map[int]readerRecord{}
	if rec.valid {
		var err error
		if readers, err = readReaders(c, rec.epoch); err != nil {
			return unread(f.path, err)
		}
	}
	return change(c, readers)
}

// changeSharedLease changes the lease of token by edit.
func (s *Store) changeSharedLease(ctx context.Context, f *file, token string, edit func(l *readerRecord, left time.Duration, wall time.Time)) error {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	c, err := s.lockReaders(ctx, f, b, func(c *conn, readers map[int]readerRecord) error {
		wall := s.config.wall()
		at, left := b.rec.findLease(readers, token, wall)
		if at < 0 {
			return errNoSuchHold
		}
		l := readers[at]
		edit(&l, left, wall)
		return s.writeLease(f, c, b, readers, at, &l, wall)
	})
	if err != nil {
		return s.busySharedLease(f, token, err)
	}
	f.unlockSpare(c) // the name stays taken
	return nil
}

// busySharedLease returns the error of a call that may have failed because another process keeps the
// file locked exclusively.
func (s *Store) busySharedLease(f *file, token string, err error) error {
	if _, busy := err.(*refusal); !busy {
		return err
	}
	_, left, err := s.sharedLease(f, token)
	switch {
	case err != nil:
		return err
	case left == 0:
		return errNoSuchHold
	}
	return errLeaseBusy(f.path)
}

// writeLease writes the record of the lease l, after a head that keeps the name for it.
func (s *Store) writeLease(f *file, c *conn, b *buffer, readers map[int]readerRecord, at int, l *readerRecord, wall time.Time) error {
	b.next.setShared(f, l.id, &b.rec, wall)
	l.valid, l.boot, l.epoch = true, machine().boot, b.next.epoch
	old := readers[at]
	readers[at] = *l
	b.next.keepFor(readers, wall)
	if err := b.write(c); err != nil {
		return unavailable(f.path, err)
	}
	if err := c.pwrite(l.encode(nil), readerOffset(at)); err != nil {
		readers[at] = old
		b.next.keepFor(readers, wall)
		_ = b.write(c) // after an error, the name is taken until the lease would have ended
		return unavailable(f.path, err)
	}
	return nil
}

// acquireSharedLease does the work of acquireLease for a detached reader.
func (s *Store) acquireSharedLease(ctx context.Context, f *file, r *driver.Request, reserved *hold) (g driver.Grant, err error) {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	var m manners
	grant := func(c *conn) error {
		return s.withReaders(f, c, b, func(c *conn, readers map[int]readerRecord) (err error) {
			g, err = s.grantSharedLease(f, c, r, b, readers, reserved, &m)
			return err
		})
	}
	if reserved != nil { // it has the kernel's lock
		recordLock, err := s.lockRecord(ctx, f)
		if err != nil {
			return driver.Grant{}, err
		}
		defer recordLock.close()
		if err := grant(reserved.conn); err != nil {
			return driver.Grant{}, err
		}
		reserved.claim()
		f.forget(reserved)
		reserved.clearReader()
		f.unlockSpare(reserved.conn)
		return g, nil
	}
	err = s.insist(f, func() error {
		if err := s.letPass(f, true, &m); err != nil {
			return err
		}
		recordLock, err := s.lockRecord(ctx, f)
		if err != nil {
			return err
		}
		defer recordLock.close()
		c, err := s.lock(f, true, grant)
		if err == nil {
			f.unlockSpare(c)
		}
		return err
	})
	return g, err
}

// grantSharedLease writes the lease of a detached reader into the file, if the record allows it. The
// lease lasts for r.TTL, or for the rest of the lease that the token already has if that is longer.
func (s *Store) grantSharedLease(f *file, c *conn, r *driver.Request, b *buffer, readers map[int]readerRecord, reserved *hold, m *manners) (driver.Grant, error) {
	rec, from, wall := &b.rec, s.config.clock.Now(), s.config.wall()
	l := readerRecord{owner: ownerOf(&r.Holder, wall.UnixMicro()), token: readerHash(r.Token.Text())}
	l.proc, l.pidns, l.start = 0, 0, 0 // it has no lock of the kernel, and its record stays when the process ends
	at, left := rec.findLease(readers, r.Token.Text(), wall)
	again := at >= 0
	switch {
	case again:
		l = readers[at]
	case reserved != nil:
		at, l.id = reserved.readerIndex, reserved.fence
	default:
		var err error
		if at, l.id, err = s.newSharedLease(f, c, r, rec, readers, m, wall); err != nil {
			return driver.Grant{}, err
		}
	}
	if at < 0 {
		at = freeReader(c, rec.epoch, wall)
	}
	if at < 0 {
		return driver.Grant{}, fmt.Errorf("%w: %s has %d shared holders, and no room for another one that is detached; try again when one of them has ended", driver.ErrUnavailable, f.path, maxReaders)
	}
	ttl := max(r.TTL, left)
	l.until = momentIn(ttl, wall)
	if err := s.writeLease(f, c, b, readers, at, &l, wall); err != nil {
		return driver.Grant{}, err
	}
	return driver.Grant{Fence: l.id, From: from, TTL: ttl, Shared: again || r.Replaces.Text() != ""}, nil
}

// newSharedLease returns the fence of a new lease, if the record allows one. If the request replaces
// a lease, newSharedLease also returns the number of that lease's record, and otherwise -1.
func (s *Store) newSharedLease(f *file, c *conn, r *driver.Request, rec *record, readers map[int]readerRecord, m *manners, wall time.Time) (at int, fence uint64, err error) {
	at, joins := -1, rec.mode == modeShared
	if r.Replaces.Text() != "" {
		if at, _ = rec.findLease(readers, r.Replaces.Text(), wall); at < 0 {
			return -1, 0, fmt.Errorf("%w: the lease to be replaced is over", driver.ErrLost)
		}
		joins = false
	} else if err := rec.admits(f.path, true, wall); err != nil {
		return -1, 0, err
	} else if no := s.yield(c, true, m); no != nil {
		return -1, 0, no
	}
	fence, _, err = mint(rec.fence, r.FenceAbove, joins, wall)
	return at, fence, err
}

// extendSharedLease does the work of Extend for a detached reader.
func (s *Store) extendSharedLease(ctx context.Context, f *file, token string, ttl time.Duration) (g driver.Grant, err error) {
	err = s.changeSharedLease(ctx, f, token, func(l *readerRecord, left time.Duration, wall time.Time) {
		g = driver.Grant{Fence: l.id, From: s.config.clock.Now(), TTL: max(left, ttl), Shared: true}
		l.until = momentIn(g.TTL, wall)
	})
	if err != nil {
		return driver.Grant{}, err
	}
	return g, nil
}

// releaseSharedLease is Release for a detached reader.
func (s *Store) releaseSharedLease(ctx context.Context, f *file, token string, keep time.Duration) (driver.Outcome, error) {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	c, err := s.lockReaders(ctx, f, b, func(c *conn, readers map[int]readerRecord) error {
		wall := s.config.wall()
		at, _ := b.rec.findLease(readers, token, wall)
		if at < 0 {
			return errNoSuchHold
		}
		b.next.setShared(f, b.rec.fence, &b.rec, wall)
		var err error
		if keep > 0 {
			b.next.coolFor(momentIn(keep, wall), wall)
			err = b.write(c)
		}
		if err == nil {
			err = emptyReader(c, at)
		}
		if err == nil {
			delete(readers, at)
			b.next.keepFor(readers, wall)
			err = b.write(c)
		}
		if err != nil {
			return unavailable(f.path, err)
		}
		return nil
	})
	switch err = s.busySharedLease(f, token, err); {
	case errors.Is(err, errNoSuchHold):
		return driver.OutcomeGone, nil
	case err != nil:
		return driver.OutcomeGone, err
	}
	s.giveBack(f, c)
	return driver.OutcomeReleased, nil
}
