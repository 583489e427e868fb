package filestore

import (
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Convert implements driver.Converter. flock(2) does not convert atomically:
// the old lock goes before the new one comes. Among padlock's own parties the
// intent in the record keeps that gap closed. PHP and flock(1) know of none and
// may come between; then Convert answers driver.ErrLost, or grants after them
// with a new fence.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	f, h, err := s.live(ctx, r.Name, r.Token)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.leave(f)
	switch {
	case h.shared && !r.Shared:
		err = s.promote(ctx, f, h, &r)
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

// promote makes one try under the gate, its intent noted before.
func (s *Store) promote(ctx context.Context, f *file, h *hold, r *driver.Request) error {
	gate, err := s.enterGate(ctx, f)
	if err != nil {
		return err
	}
	defer gate.close()
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	rec, wall := b.read(h.conn), s.config.wall()
	if rec.newer {
		return newer(f.path)
	}
	if rec.intent != 0 && rec.intent != h.slotID && rec.intentEnd.left(wall) > 0 {
		return driver.ErrPromotionConflict
	}
	if err := s.note(f, h, b); err != nil {
		return err
	}
	if no := coolingFor(rec, h, wall); no != nil {
		return keptFrom(no, wall)
	}
	switch n := s.neighbours(h); {
	case n.writer:
		s.lose(f, h)
		return fmt.Errorf("%w: another has taken it", driver.ErrLost)
	case len(n.holds) > 0: // no try, which would let go of the shared lock
		return &driver.HeldError{Waiters: -1, Holds: n.holds}
	}
	switch err := h.conn.tryLock(false); err {
	case nil:
		return s.promoted(f, h, r, b)
	case errBusy:
		return s.notPromoted(f, h)
	default:
		s.lose(f, h) // what the kernel left of it cannot be known
		return fmt.Errorf("%w: %w", driver.ErrLost, unavailable(f.path, err))
	}
}

// note writes the intent, or writes it again, for as long as an intent lasts.
func (s *Store) note(f *file, h *hold, b *buffer) error {
	wall := s.config.wall()
	b.next.share(f, h, &b.rec, wall)
	b.next.intent, b.next.intentEnd = h.slotID, in(driver.MaxIntent, wall)
	if err := b.write(h.conn); err != nil {
		return unavailable(f.path, err)
	}
	h.intent = h.slotID
	return nil
}

// coolingFor returns what keeps h from being promoted although no other reader
// is there: a cool-down, or the AtLeast of a reader who died.
func coolingFor(rec *record, h *hold, wall time.Time) *refusal {
	left := rec.cool.left(wall)
	if rec.readCool.left(wall) > h.atLeast.left(wall)+time.Millisecond {
		left = max(left, rec.readCool.left(wall))
	}
	if left == 0 {
		return nil
	}
	return &refusal{cooling: true, left: left}
}

func keptFrom(no *refusal, wall time.Time) error {
	until := wall.Add(no.left)
	return &driver.HeldError{Holds: []driver.Hold{{Cooling: true, Until: until}}, Until: until, Waiters: -1}
}

// promoted makes the exclusive hold, now that its lock is there.
func (s *Store) promoted(f *file, h *hold, r *driver.Request, b *buffer) error {
	same, err := h.conn.current()
	if err == nil && !same {
		s.lose(f, h)
		return fmt.Errorf("%w: %s was removed or replaced", driver.ErrLost, f.path)
	}
	fence, stored, err := mint(max(b.rec.fence, h.fence), r.FenceAbove, false, s.config.wall())
	if err != nil {
		return s.backToShared(f, h, err)
	}
	next := *h
	next.fence, next.shared, next.intent = fence, false, 0
	b.next.own(f, &next)
	if err := b.write(h.conn); err != nil && stored {
		return s.backToShared(f, h, unavailable(f.path, err))
	}
	clearSlot(h.conn, h.slot)
	next.slot = -1
	*h = next
	return nil
}

// notPromoted takes the shared lock again, which the failed try has lost. The
// try is made only when no other reader was seen, so what stands in the way came
// in between, or cannot be seen: a party that knows no intent may have had the
// lock exclusively meanwhile. The hold goes on only if a reader of padlock
// explains the failure.
func (s *Store) notPromoted(f *file, h *hold) error {
	if h.conn.tryLock(true) == nil {
		if n := s.neighbours(h); !n.complete && len(n.recorded) > 0 {
			return &driver.HeldError{Waiters: -1, Holds: n.recorded}
		}
	}
	s.lose(f, h)
	return fmt.Errorf("%w: another took it while it was being promoted", driver.ErrLost)
}

// neighbours are the other holders of a name, as a reader sees them.
type neighbours struct {
	holds    []driver.Hold // by the kernel's list, or else those recorded that live
	recorded []driver.Hold // readers of padlock that may live, without a look at the list
	writer   bool          // one of them has the lock exclusively
	complete bool          // the list shows every lock
}

// neighbours looks for the holders beside h, which is shared.
func (s *Store) neighbours(h *hold) (n neighbours) {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	rec := b.read(h.conn)
	slots := readSlots(h.conn, rec.epoch)
	own, known := slots[h.slot]
	if !known { // all slots were taken when it came in
		own.proc, own.pidns = uint64(machine().pid), machine().pidns
	}
	delete(slots, h.slot)
	for i := range slotCount {
		if o, ok := slots[i]; ok && o.state(o.boot) != processDead {
			n.recorded = append(n.recorded, o.hold(true))
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
		if !found && l.shared && own.took(l) { // the first of this process, for all that the list tells
			found = true
			continue
		}
		n.writer = n.writer || !l.shared
		n.holds = append(n.holds, l.hold(rec, slots))
	}
	return n
}

// backToShared undoes a promotion that could not be written down.
func (s *Store) backToShared(f *file, h *hold, why error) error {
	if h.conn.tryLock(true) != nil {
		s.lose(f, h)
		return fmt.Errorf("%w: %w", driver.ErrLost, why)
	}
	return why
}

// demote keeps the fence. The intent keeps other takers of padlock out of the
// gap; it lasts until the gate is open again.
func (s *Store) demote(ctx context.Context, f *file, h *hold) error {
	gate, err := s.enterGate(ctx, f)
	if err != nil {
		return err
	}
	defer gate.close()
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	next := *h
	next.shared = true
	wall := s.config.wall()
	b.next.share(f, &next, &record{valid: true, fence: h.fence, epoch: h.fence}, wall)
	b.next.intent, b.next.intentEnd = newID(), in(driver.MaxIntent, wall)
	if err := b.write(h.conn); err != nil {
		return unavailable(f.path, err)
	}
	if h.conn.tryLock(true) != nil {
		s.lose(f, h)
		return fmt.Errorf("%w: another took it while it was being demoted", driver.ErrLost)
	}
	next.writeSlot(b.next.epoch)
	*h = next
	b.next.intent, b.next.intentEnd = 0, moment{}
	_ = b.write(h.conn) // else it lapses
	s.wake(f, h.conn)
	return nil
}

// withdraw takes an intent back, so that new readers come in again.
func (s *Store) withdraw(ctx context.Context, f *file, h *hold) error {
	err := s.change(ctx, f, h, func(rec *record) {
		if rec.intent == h.intent {
			rec.intent, rec.intentEnd = 0, moment{}
		}
	})
	if err != nil {
		return err
	}
	h.intent = 0
	s.wake(f, h.conn)
	return nil
}
