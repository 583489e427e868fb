package filestore

import (
	"math"
	"sync"
	"time"
)

// order is the part of a store that gives waiters the lock in the order of their arrival.
type order struct {
	pipe wakePipe

	mu      sync.Mutex
	refused int       // how many times a waiter could not get a ticket
	lastErr error     // the reason of the last such failure
	since   time.Time // the time of the last such failure
}

// inOrder reports whether waiters can have tickets at all.
func inOrder(c *config, dir string) bool { return !c.network && hasPipes(dir) }

// enlist makes sure that w has a valid ticket, if w needs a ticket. If w cannot get a ticket, w
// waits without a ticket. enlist returns an error only if a newer version of padlock has made the
// queue. The caller holds f.mu.
func (s *Store) enlist(f *file, w *waiter) error {
	if w.aside || !s.guarantees.FIFO || f.spare == nil {
		return nil
	}
	if t := w.ticket; t.queue != nil && t.queue.liesIn(f.spare) && t.valid() && s.order.pipe.hasNumber(t.word.pipe()) {
		return nil
	}
	s.delist(w, false)
	t, err := s.takeTicket(f, w.shared)
	switch {
	case err == errNewerQueue:
		return newer(f.path)
	case err != nil:
		s.noTicket(err)
		f.queue.setTicket(w, false, false)
		return nil
	}
	w.ticket = t
	f.queue.setTicket(w, true, false)
	s.order.pipe.add(t, w)
	return nil
}

func (s *Store) takeTicket(f *file, shared bool) (ticket, error) {
	q, err := f.queueOf(f.spare)
	if err != nil {
		return ticket{}, err
	}
	pipe, err := s.order.pipe.openPipe(s)
	if err != nil {
		return ticket{}, err
	}
	state := ticketWaits
	if shared {
		state = ticketWaitsShared
	}
	t, err := q.join(f.spare, state, pipe)
	if err == nil {
		q.retain()
	}
	return t, err
}

// trouble returns how many waiters got no ticket, and when that last happened. The error says why a
// new waiter would get no ticket now. If a new waiter would get a ticket, the error is the most
// recent one, or nil if there was none.
func (o *order) trouble(s *Store) (failures int, lastTime time.Time, err error) {
	_, err = o.pipe.openPipe(s)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		err = o.lastErr
	}
	return o.refused, o.since, err
}

func (s *Store) noTicket(err error) {
	s.order.mu.Lock()
	defer s.order.mu.Unlock()
	s.order.refused++
	s.order.lastErr, s.order.since = err, s.config.wall()
}

// delist gives up the ticket of w. It also wakes the next waiter in two cases:
//
//   - w was the first waiter and did not get the lock. w may have received the wake-up that the
//     next waiter needs now.
//   - w is a reader that got the lock, and the next waiter is a reader, too.
func (s *Store) delist(w *waiter, granted bool) {
	t := w.ticket
	if t.queue == nil {
		return
	}
	w.ticket = ticket{}
	first := false
	_ = t.queue.guard(func() {
		_, _, ahead := t.queue.firstTicket(t.number)
		first = !ahead
		t.queue.remove(t.number, t.word)
	})
	s.order.pipe.remove(t)
	if first && !granted || granted && w.shared {
		s.wakeFirst(t.queue, granted)
	}
	t.queue.drop()
}

// stale reports whether the ticket of w is useless. There are two reasons: the lock file was
// replaced, so the ticket belongs to an old file, or the store's pipe was removed, so other
// processes cannot wake w. The caller holds f.mu.
func (s *Store) stale(f *file, w *waiter) bool {
	return f.spare == nil || !w.ticket.queue.liesIn(f.spare) || s.order.pipe.isLost()
}

// position returns how many waiters are ahead of w. It removes dead waiters at the head of the
// queue.
func (s *Store) position(w *waiter) (ahead int) {
	q := w.ticket.queue
	_ = q.guard(func() {
		for {
			number, word, ok := q.firstTicket(w.ticket.number)
			if !ok {
				return
			}
			if s.reachWaiter(q, number, word, false) != reachedDead {
				ahead = q.count(w.ticket.number)
				return
			}
			q.remove(number, word)
		}
	})
	return ahead
}

// hasNewerQueue reports whether the file of c has a queue that this build cannot read. start is the
// beginning of the file.
func (s *Store) hasNewerQueue(c *conn, start []byte) bool {
	return s.guarantees.FIFO && c.queueHeader(start).isNewer()
}

// yield is called after a try has taken the kernel's lock through c. It returns a refusal if a
// living waiter must get the lock first. If the try is for a waiter (f.asking), only the waiters
// ahead of that waiter count. Otherwise all waiters count. The slice start has the first bytes of
// the file. The caller holds f.mu.
func (s *Store) yield(f *file, c *conn, shared bool, start []byte) (no *refusal) {
	if !s.guarantees.FIFO {
		return nil
	}
	if h := c.queueHeader(start); h.empty() && h.free == 0 {
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
			number, word, ok := q.firstTicket(limit)
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

// yieldTo returns a refusal, so that the waiter with the given ticket gets the lock that c has. If
// that waiter's process is dead or stopped, yieldTo removes the ticket and returns nil.
//
// If convert is true, c has a shared lock and the waiter wants an exclusive lock. Then yieldTo
// first tries to make the lock of c exclusive.
func (s *Store) yieldTo(q *ticketQueue, number uint64, word ticketWord, c *conn, convert bool) *refusal {
	if convert && c.tryLock(false) != nil {
		// Other readers have the lock. The waiter cannot take the lock yet, so it does not count as
		// stopped.
		if s.reachWaiter(q, number, word, false) != reachedDead {
			return &refusal{queued: true}
		}
		q.remove(number, word)
		return &refusal{queued: true, again: true} // c lost its lock in the conversion
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
	case s.reachWaiter(q, number, word, true) == reachedDead:
		q.remove(number, word)
	default:
		return &refusal{queued: true, left: s.config.headPatience - time.Duration(now-free)}
	}
	return nil
}

// noteHeld records in the queue that a waiter tried the lock and found it held.
func (w *waiter) noteHeld() {
	if q := w.ticket.queue; q != nil {
		_ = q.guard(func() {
			if q.free().Load() != 0 {
				q.free().Store(0)
			}
		})
	}
}

// noteFree writes the current time into the queue of the lock file, because the lock of c is about
// to be free. If the queue is empty, noteFree does nothing. size is the size of the file. The
// caller holds f.mu and has the lock.
func (s *Store) noteFree(f *file, c *conn, size int64) {
	if !s.guarantees.FIFO || size <= ticketOffset {
		return
	}
	if h := c.queueHeader(nil); h.empty() || h.isNewer() {
		return
	}
	if q, err := f.queueOf(c); err == nil {
		_ = q.guard(func() { q.free().Store(uint64(bootNow())) })
	}
}

// wakeNext is called when the lock of c has been given back. It wakes the first waiter. If
// onlyReader is true, the lock has become shared, and wakeNext wakes the first waiter only if it is
// a reader. The caller holds f.mu.
func (s *Store) wakeNext(f *file, c *conn, onlyReader bool) {
	if !s.guarantees.FIFO {
		return
	}
	h := c.queueHeader(nil)
	switch {
	case h.isNewer():
		touch(c) // a newer padlock also watches the file
		return
	case h.empty():
		return
	}
	if q, err := f.queueOf(c); err == nil && !s.wakeFirst(q, onlyReader) {
		touch(c)
	}
}

// wakeFirst wakes the first living waiter, if there is one. It returns false if that waiter could
// not be woken.
func (s *Store) wakeFirst(q *ticketQueue, onlyReader bool) (ok bool) {
	_ = q.guard(func() {
		for {
			number, word, waits := q.firstTicket(math.MaxUint64)
			if ok = !waits || onlyReader && !word.shared(); ok {
				return
			}
			switch s.reachWaiter(q, number, word, true) {
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

// waiting returns how many waiters are in the queue for the lock of c, or -1 if that is unknown.
func (s *Store) waiting(c *conn) int {
	if !s.guarantees.FIFO {
		return -1
	}
	q := &ticketQueue{ino: c.ino}
	return c.readTickets(func(number uint64, word ticketWord) bool {
		return s.reachWaiter(q, number, word, false) != reachedDead
	})
}

// someoneWaits reports whether a living waiter is in the queue. The caller holds f.mu, and f.spare
// is not nil.
func (s *Store) someoneWaits(f *file) (waits bool) {
	if !s.guarantees.FIFO {
		return false
	}
	if h := f.spare.queueHeader(nil); h.empty() || h.isNewer() {
		return false
	}
	q, err := f.queueOf(f.spare)
	if err != nil {
		return false
	}
	_ = q.guard(func() {
		for {
			number, word, ok := q.firstTicket(math.MaxUint64)
			if waits = ok && s.reachWaiter(q, number, word, false) != reachedDead; waits || !ok {
				return
			}
			q.remove(number, word)
		}
	})
	return waits
}
