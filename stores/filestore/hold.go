package filestore

import (
	"context"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// hold is one grant. The mutex of its file guards it.
type hold struct {
	token       string
	conn        *conn
	fence       uint64
	shared      bool
	passed      bool          // a copy of the descriptor was given to a child
	visible     bool          // showsLock returned true before the child got its copy
	readerIndex int           // the number of its readerRecord; -1 if it has none
	readerID    uint64        // the id in that record
	intent      uint64        // the intent that this hold wrote into the file, or 0
	reserved    func() bool   // for a reservation: stops the timer that ends it; otherwise nil
	waited      bool          // the hold began as a reservation
	holder      driver.Holder // kept so that a lost record can be written again
	since       int64         // µs since 1970
}

// claim makes h an ordinary hold, if Wait took it as a reservation.
func (h *hold) claim() {
	if h.reserved != nil {
		h.reserved()
		h.reserved = nil
	}
}

var errNoSuchHold = fmt.Errorf("%w: this store has no such hold", driver.ErrLost)

// live verifies the hold of token, and returns it together with its file. If live returns no error,
// the caller must call endCall.
func (s *Store) live(ctx context.Context, name, token string) (*file, *hold, error) {
	if err := driver.CheckHold(name, token, &s.guarantees); err != nil {
		return nil, nil, err
	}
	f, err := s.beginCall(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	h := f.find(token)
	if h == nil || h.reserved != nil {
		s.endCall(f)
		return nil, nil, errNoSuchHold
	}
	ok, err := s.verify(f, h)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s was removed, replaced or unlocked by another program", driver.ErrLost, f.path)
	}
	if err != nil {
		s.endCall(f)
		return nil, nil, err
	}
	return f, h, nil
}

// findLive returns the hold of token, or nil if there is none or it was lost.
func (s *Store) findLive(f *file, token string) (*hold, error) {
	h := f.find(token)
	if h == nil {
		return nil, nil
	}
	live, err := s.verify(f, h)
	if err != nil || !live {
		return nil, err
	}
	return h, nil
}

// verify reports whether h is still held, and forgets h if it is not. If the record of h is lost,
// verify writes it again, unless another program has written into the file.
func (s *Store) verify(f *file, h *hold) (bool, error) {
	same, err := h.conn.current()
	if err != nil {
		return false, unavailable(f.path, err)
	}
	if !same || h.passed && !h.isLocked() {
		s.lose(f, h)
		return false, nil
	}
	if h.shared && !h.passed {
		return true, nil
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	rec := b.read(h.conn)
	if rec.unread != nil {
		return false, unread(f.path, rec.unread)
	}
	if h.hasSuccessor(rec) {
		s.lose(f, h)
		return false, nil
	}
	if !h.shared && !rec.foreign && rec.fence < h.fence {
		b.next.setExclusive(f, h)
		_ = b.write(h.conn) // after an error, the next call tries again
	}
	return true, nil
}

// isLocked reports whether a hold still has the kernel's lock. It is called if the file was given
// to a child process, which may have unlocked it. If the kernel does not show the lock, isLocked
// takes the lock again. That also succeeds if the child unlocked the file and no other process has
// taken the lock.
func (h *hold) isLocked() bool {
	if h.visible {
		if shows, err := h.conn.showsLock(); err == nil {
			return shows
		}
	}
	return h.conn.tryLock(h.shared) == nil
}

// hasSuccessor reports whether the record shows that another process got the lock after h. If h is
// shared, only an exclusive or a detached hold counts. A hold has a successor only if a child
// process got the file and unlocked it.
func (h *hold) hasSuccessor(rec *record) bool {
	if h.shared {
		return rec.newer || rec.epoch > h.fence
	}
	return rec.newer || rec.fence > h.fence
}

// lose forgets a hold that was lost, and closes its descriptor.
func (s *Store) lose(f *file, h *hold) {
	f.forget(h)
	h.conn.unlock()
	h.conn.close()
}

// giveBack unlocks c, so that the kernel wakes the first waiter, and keeps c for later. It returns
// false if the path no longer leads to this file, because the file was removed or its directory
// renamed. In that case another process may hold the name. If the system cannot tell, giveBack
// assumes that the path still leads to the file.
func (s *Store) giveBack(f *file, c *conn) bool {
	same, err := c.current()
	c.unlock()
	f.wake()
	if !same && err == nil {
		c.close()
		return false
	}
	f.keepSpare(c)
	return true
}
