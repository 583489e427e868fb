package filestore

import (
	"math"
	"sync"
	"time"
)

// order is what a store has for waiting in order of arrival.
type order struct {
	pipe wakePipe

	mu      sync.Mutex
	refused int       // tickets that could not be had
	why     error     // of the last
	since   time.Time // of the last
}

// inOrder reports whether waiters can have tickets at all.
func inOrder(c *config, dir string) bool { return !c.network && hasPipes(dir) }

// enlist takes a ticket for w, if it wants one and has none that is good. If none can be had, w
// waits without one; the only error is that of a queue that a newer padlock made. The caller holds
// f.mu.
func (s *Store) enlist(f *file, w *waiter) error {
	if w.aside || !s.guarantees.FIFO || f.spare == nil {
		return nil
	}
	if t := w.ticket; t.queue != nil && t.queue.of(f.spare) && t.valid() && s.order.pipe.is(t.word.pipe()) {
		return nil
	}
	s.delist(w, false)
	t, err := s.takeTicket(f, w.shared)
	switch {
	case err == errNewerQueue:
		return newer(f.path)
	case err != nil:
		s.noTicket(err)
		f.queue.set(w, false, false)
		return nil
	}
	w.ticket = t
	f.queue.set(w, true, false)
	s.order.pipe.add(t, w)
	return nil
}

func (s *Store) takeTicket(f *file, shared bool) (ticket, error) {
	q, err := f.queueOf(f.spare)
	if err != nil {
		return ticket{}, err
	}
	pipe, err := s.order.pipe.open(s)
	if err != nil {
		return ticket{}, err
	}
	state := ticketWaits
	if shared {
		state = ticketWaitsShared
	}
	t, err := q.join(f.spare, state, pipe)
	if err == nil {
		q.hold()
	}
	return t, err
}

// trouble returns why waiters had no tickets, or could have none now.
func (o *order) trouble(s *Store) (refused int, since time.Time, why error) {
	_, err := o.pipe.open(s)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		err = o.why
	}
	return o.refused, o.since, err
}

func (s *Store) noTicket(err error) {
	s.order.mu.Lock()
	defer s.order.mu.Unlock()
	s.order.refused++
	s.order.why, s.order.since = err, s.config.wall()
}

// delist gives up the ticket of w. If w did not get the lock and was the first,
// the next is woken, since the wake-up may have been meant for w. A reader that
// got in wakes the next reader.
func (s *Store) delist(w *waiter, granted bool) {
	t := w.ticket
	if t.queue == nil {
		return
	}
	w.ticket = ticket{}
	first := false
	_ = t.queue.guard(func() {
		_, _, ahead := t.queue.first(t.number)
		first = !ahead
		t.queue.remove(t.number, t.word)
	})
	s.order.pipe.remove(t)
	if first && !granted || granted && w.shared {
		s.wakeFirst(t.queue, granted)
	}
	t.queue.drop()
}

// stale reports whether the ticket of w is for another file than the one that is
// there, or nobody would find its pipe. The caller holds f.mu.
func (s *Store) stale(f *file, w *waiter) bool {
	return f.spare == nil || !w.ticket.queue.of(f.spare) || s.order.pipe.lost()
}

// position returns how many wait before w; those that are first and dead are
// removed.
func (s *Store) position(w *waiter) (ahead int) {
	q := w.ticket.queue
	_ = q.guard(func() {
		for {
			number, word, ok := q.first(w.ticket.number)
			if !ok {
				return
			}
			if s.reach(q, number, word, false) != reachedDead {
				ahead = q.count(w.ticket.number)
				return
			}
			q.remove(number, word)
		}
	})
	return ahead
}

// hasNewerQueue reports whether c's file has a queue that this build cannot read. in is the start of
// the file.
func (s *Store) hasNewerQueue(c *conn, in []byte) bool {
	return s.guarantees.FIFO && c.queueHeader(in).newer()
}

// yield refuses a lock that c has to a newcomer, or to a waiter, if somebody
// living waits before it: nil if nobody does. in is the start of the file.
// The caller holds f.mu.
func (s *Store) yield(f *file, c *conn, shared bool, in []byte) (no *refusal) {
	if !s.guarantees.FIFO {
		return nil
	}
	if h := c.queueHeader(in); h.empty() && h.free == 0 {
		return nil
	}
	q, err := f.queueOf(c)
	if err != nil {
		return nil
	}
	limit := uint64(math.MaxUint64)
	if w := f.asking; w != nil && w.ticket.queue == q {
		limit = w.ticket.number
	}
	converted := false
	_ = q.guard(func() {
		for {
			number, word, ok := q.first(limit)
			if !ok {
				q.free().Store(0)
				return
			}
			convert := shared && !converted && !word.shared()
			if no = s.yieldTo(q, number, word, c, convert); no != nil {
				return
			}
			converted = converted || convert
		}
	})
	if no == nil && converted && c.tryLock(true) != nil {
		return &refusal{queued: true, again: true}
	}
	return no
}

// yieldTo is yield to one ticket. If it returns nil the ticket is gone. With
// convert c has a shared lock, and the ticket is a writer's: whether the writer
// could have the lock now shows when c converts its own.
func (s *Store) yieldTo(q *ticketQueue, number uint64, word ticketWord, c *conn, convert bool) *refusal {
	if convert && c.tryLock(false) != nil {
		if s.reach(q, number, word, false) != reachedDead {
			return &refusal{queued: true}
		}
		q.remove(number, word)
		return &refusal{queued: true, again: true} // the lock that c had is lost
	}
	now := uint64(bootNow())
	free := q.free().Load()
	if free == 0 || free > now {
		free = now
		q.free().Store(now)
	}
	switch {
	case now-free >= uint64(s.config.headPatience):
		q.removeAll(word.pipe())
		q.free().Store(now)
	case s.reach(q, number, word, true) == reachedDead:
		q.remove(number, word)
	default:
		return &refusal{queued: true, left: s.config.headPatience - time.Duration(now-free)}
	}
	return nil
}

// taken notes that the lock is not free, as a waiter found.
func (w *waiter) taken() {
	if q := w.ticket.queue; q != nil {
		_ = q.guard(func() {
			if q.free().Load() != 0 {
				q.free().Store(0)
			}
		})
	}
}

// offer notes that the lock of c is about to be free, if somebody waits for
// it. size is that of the file. The caller holds f.mu and has the lock.
func (s *Store) offer(f *file, c *conn, size int64) {
	if !s.guarantees.FIFO || size <= ticketOffset {
		return
	}
	if h := c.queueHeader(nil); h.empty() || h.newer() {
		return
	}
	if q, err := f.queueOf(c); err == nil {
		_ = q.guard(func() { q.free().Store(uint64(bootNow())) })
	}
}

// wakeNext wakes the first waiter, after the lock of c was given back, or let
// readers in: then the first is woken if it is one. The caller holds f.mu.
func (s *Store) wakeNext(f *file, c *conn, onlyReader bool) {
	if !s.guarantees.FIFO {
		return
	}
	h := c.queueHeader(nil)
	switch {
	case h.newer():
		touch(c) // a newer padlock watches the file as every padlock does
		return
	case h.empty():
		return
	}
	if q, err := f.queueOf(c); err == nil && !s.wakeFirst(q, onlyReader) {
		touch(c)
	}
}

// wakeFirst skips the dead. It returns false if there is somebody whom it
// could not wake.
func (s *Store) wakeFirst(q *ticketQueue, onlyReader bool) (ok bool) {
	_ = q.guard(func() {
		for {
			number, word, waits := q.first(math.MaxUint64)
			if ok = !waits || onlyReader && !word.shared(); ok {
				return
			}
			switch s.reach(q, number, word, true) {
			case reachedLiving:
				ok = true
				return
			case reachedUnknown:
				return
			}
			q.remove(number, word)
		}
	})
	return ok
}

// waiting counts who waits in order for the lock of c; -1 if that is unknown.
func (s *Store) waiting(c *conn) int {
	if !s.guarantees.FIFO {
		return -1
	}
	q := &ticketQueue{ino: c.ino}
	return c.readTickets(func(number uint64, word ticketWord) bool {
		return s.reach(q, number, word, false) != reachedDead
	})
}

// someoneWaits reports whether somebody living waits in order. The caller holds
// f.mu, and f.spare is not nil.
func (s *Store) someoneWaits(f *file) (waits bool) {
	if !s.guarantees.FIFO {
		return false
	}
	if h := f.spare.queueHeader(nil); h.empty() || h.newer() {
		return false
	}
	q, err := f.queueOf(f.spare)
	if err != nil {
		return false
	}
	_ = q.guard(func() {
		for {
			number, word, ok := q.first(math.MaxUint64)
			if waits = ok && s.reach(q, number, word, false) != reachedDead; waits || !ok {
				return
			}
			q.remove(number, word)
		}
	})
	return waits
}
