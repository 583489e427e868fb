package filestore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Convert implements driver.Converter. flock(2) does not convert a lock in one step: it frees the
// old lock before it takes the new one. An intent in the record keeps other padlock processes out
// during that gap. PHP and flock(1) do not read the record, so they may take the lock during the
// gap. Convert then returns driver.ErrLost. But if they have already given the lock back, Convert
// succeeds.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	f, h, err := s.live(ctx, r.Name, r.Token.Text())
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.endCall(f)
	switch {
	case h.shared && !r.Shared:
		var m manners
		err = s.insist(f, func() error {
			if f.find(r.Token.Text()) != h {
				return errNoSuchHold // it ended while insist paused
			}
			return s.promote(ctx, f, h, &r, &m)
		})
	case !h.shared && r.Shared:
		err = s.demote(ctx, f, h)
	case h.intent != 0:
		err = s.withdraw(ctx, f, h)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	return driver.Grant{Fence: h.fence}, nil
}

// promote tries once to make the shared lock of h exclusive. First it locks the record, so that no
// other process changes the record meanwhile (see lockRecord). Then it writes the intent into the
// record, which keeps other processes from taking the lock.
//
// A reader that the kernel is waking gets the shared lock without the record lock, so an attempt
// could fail. promote then returns a refusal, but not for ever: the reader may be stopped.
func (s *Store) promote(ctx context.Context, f *file, h *hold, r *driver.Request, m *manners) error {
	recordLock, err := s.lockRecord(ctx, f)
	if err != nil {
		return err
	}
	defer recordLock.close()
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	rec, wall := b.read(h.conn), s.config.wall()
	if err := rec.hands(f.path); err != nil {
		return err
	}
	if rec.intent != 0 && rec.intent != h.readerID && rec.intentEnd.timeLeft(wall) > 0 {
		return driver.ErrPromotionConflict
	}
	if err := s.writeIntent(f, h, b); err != nil {
		return err
	}
	if no := coolingFor(rec, false, wall); no != nil {
		return s.keptError(h.conn, rec, no, wall)
	}
	if s.guarantees.FIFO && m.gaveBack < maxGaveBack && h.conn.readersQueue() {
		m.gaveBack++
		return &refusal{queued: true}
	}
	switch n := s.neighbours(h); {
	case n.writer:
		s.lose(f, h)
		return fmt.Errorf("%w: another program has taken it", driver.ErrLost)
	case len(n.holds) > 0: // an attempt would fail now, and lose the shared lock
		return &driver.HeldError{Waiters: -1, Holds: n.holds}
	}
	switch err := h.conn.tryLock(false); err {
	case nil:
		return s.finishPromotion(f, h, r, b)
	case errBusy:
		return s.notPromoted(f, h)
	default:
		s.lose(f, h) // the shared lock may be gone, too
		return fmt.Errorf("%w: %w", driver.ErrLost, unavailable(f.path, err))
	}
}

// writeIntent writes the intent of h into the record, or renews it. The intent says that h is being
// promoted. It lasts for driver.MaxIntent.
func (s *Store) writeIntent(f *file, h *hold, b *buffer) error {
	wall := s.config.wall()
	b.next.setShared(f, h.fence, &b.rec, wall)
	b.next.intent, b.next.intentEnd = h.readerID, momentIn(driver.MaxIntent, wall)
	if err := b.write(h.conn); err != nil {
		return unavailable(f.path, err)
	}
	h.intent = h.readerID
	return nil
}

// keptError returns the error for a promotion that a cool-down or other leases prevent.
func (s *Store) keptError(c *conn, rec *record, no *refusal, wall time.Time) error {
	readers, _ := readReaders(c, rec.epoch) // without them, the holders are unknown
	return &driver.HeldError{Holds: rec.keepers(readers, wall), Until: wall.Add(no.left), Waiters: -1}
}

// finishPromotion makes h exclusive. The caller has just got the exclusive lock from the kernel.
func (s *Store) finishPromotion(f *file, h *hold, r *driver.Request, b *buffer) error {
	same, err := h.conn.current()
	switch {
	case err != nil:
		return s.backToShared(f, h, unavailable(f.path, err))
	case !same:
		s.lose(f, h)
		return fmt.Errorf("%w: %s was removed or replaced", driver.ErrLost, f.path)
	}
	fence, stored, err := mint(max(b.rec.fence, h.fence), r.FenceAbove, false, s.config.wall())
	if err != nil {
		return s.backToShared(f, h, err)
	}
	next := *h
	next.fence, next.shared, next.intent = fence, false, 0
	b.next.setExclusive(f, &next)
	if err := b.write(h.conn); err != nil && stored {
		return s.backToShared(f, h, unavailable(f.path, err))
	}
	h.clearReader()
	next.readerIndex = -1
	*h = next
	return nil
}

// notPromoted is called if the kernel refused to make the shared lock of h exclusive. The refused
// attempt has also lost the shared lock, so notPromoted takes the shared lock again.
//
// The kernel refused because another process has the lock. This store did not see that process
// before. There are two cases:
//
//   - The process is a reader that uses padlock. Then h stays valid. The reader cannot have become
//     a writer in the meantime, because the record says that h is being promoted.
//   - The process is another program or cannot be identified. It may have had the lock exclusively,
//     so h is lost.
func (s *Store) notPromoted(f *file, h *hold) error {
	if h.conn.tryLock(true) == nil {
		if n := s.neighbours(h); !n.complete && len(n.recorded) > 0 {
			return &driver.HeldError{Waiters: -1, Holds: n.recorded}
		}
	}
	s.lose(f, h)
	return fmt.Errorf("%w: another program took it while it was being promoted", driver.ErrLost)
}

// neighbours are the other holders of a name, as one of its readers sees them.
type neighbours struct {
	holds    []driver.Hold // the holders in the kernel's list; if there is no list, the recorded readers
	recorded []driver.Hold // the recorded readers, without dead processes
	writer   bool          // a lock in the kernel's list is exclusive
	complete bool          // the kernel's list shows every lock
}

// neighbours finds all holders except the shared hold h.
func (s *Store) neighbours(h *hold) (n neighbours) {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	rec := b.read(h.conn)
	readers, err := readReaders(h.conn, rec.epoch)
	rec.unread = cmp.Or(rec.unread, err)
	own, known := readers[h.readerIndex]
	if !known { // all records were taken when h was granted
		own.proc, own.pidns = uint64(machine().pid), machine().pidns
	}
	delete(readers, h.readerIndex)
	for i := range maxReaders {
		if o, ok := readers[i]; ok && !o.detached() && o.state(o.boot) != processDead {
			n.recorded = append(n.recorded, o.holdOf(true))
		}
	}
	locks, complete, err := s.seen.locksOf(s.dir, h.conn)
	if err != nil {
		n.holds = n.recorded
		return n
	}
	n.complete = complete
	found := false
	for _, l := range locks {
		if !found && l.shared && own.tookLock(l) { // one lock of this process belongs to h
			found = true
			continue
		}
		n.writer = n.writer || !l.shared
		n.holds = append(n.holds, l.holder(rec, readers))
	}
	return n
}

// backToShared undoes a promotion whose record could not be written, and returns the error.
func (s *Store) backToShared(f *file, h *hold, why error) error {
	if h.conn.tryLock(true) != nil {
		s.lose(f, h)
		return fmt.Errorf("%w: %w", driver.ErrLost, why)
	}
	return why
}

// demote makes h shared and keeps its fence. The kernel's lock may be free for an instant while it
// is converted. So demote first writes an intent into the record, and other processes that use
// padlock do not take the lock while the intent is there. At the end, demote removes the intent.
func (s *Store) demote(ctx context.Context, f *file, h *hold) error {
	recordLock, err := s.lockRecord(ctx, f)
	if err != nil {
		return err
	}
	defer recordLock.close()
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	if err := b.read(h.conn).hands(f.path); err != nil {
		return err
	}
	next := *h
	next.shared = true
	wall := s.config.wall()
	b.next.setShared(f, h.fence, &record{valid: true, fence: h.fence, epoch: h.fence}, wall)
	b.next.intent, b.next.intentEnd = newID(), momentIn(driver.MaxIntent, wall)
	if err := b.write(h.conn); err != nil {
		return unavailable(f.path, err)
	}
	if h.conn.tryLock(true) != nil {
		s.lose(f, h)
		return fmt.Errorf("%w: another program took it while it was being demoted", driver.ErrLost)
	}
	next.recordReader(b.next.epoch, wall)
	*h = next
	b.next.intent, b.next.intentEnd = 0, moment{}
	_ = b.write(h.conn) // after an error, the intent lapses by itself
	f.wake()
	return nil
}

// withdraw gives up the promotion of the reader h. It removes the intent from the record, so that
// new readers can get the lock again.
func (s *Store) withdraw(ctx context.Context, f *file, h *hold) error {
	err := s.changeRecord(ctx, f, h, func(rec *record) {
		if rec.intent == h.intent {
			rec.intent, rec.intentEnd = 0, moment{}
		}
	})
	if err != nil {
		return err
	}
	h.intent = 0
	f.wake()
	return nil
}
