package filestore

import (
	"context"
	"os"
	"slices"
	"syscall"

	"github.com/padlock-go/padlock/driver"
)

// File implements fast.FileSharer: it returns a copy of the open lock file, for a child process.
// The child then keeps the lock even after this process has ended. If the child unlocks the file
// (LOCK_UN, flock -u), the hold ends for this process, too, and Extend notices that. On Windows, a
// lock belongs to one process, so the store lacks this ability.
func (s *Store) File(name, token string) (*os.File, error) {
	f, h, err := s.live(context.Background(), name, token)
	if err != nil {
		return nil, err
	}
	defer s.endCall(f)
	file, err := h.conn.dup(f.path)
	if err != nil {
		return nil, unavailable(f.path, err)
	}
	shows, err := h.conn.showsLock()
	h.passed, h.visible = true, err == nil && shows
	return file, nil
}

// wasReplaced reports whether another process has had the lock since h was granted. That happens if
// a child process unlocked the file. The record then belongs to the other process, and Release must
// not change it.
func (h *hold) wasReplaced(path string) (bool, error) {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	rec := b.read(h.conn)
	if rec.unread != nil {
		return false, unread(path, rec.unread)
	}
	return h.hasSuccessor(rec), nil
}

// letGoPassed releases a hold whose file was given to a child process. The child may still need the
// lock. If letGoPassed unlocked the file, it would take the lock from the child. So it only closes
// this store's descriptor, and then tries the lock, to find out whether the lock is free now.
//
// While letGoPassed holds syscall.ForkLock, this process starts no other child. A child that is
// being started has copies of all descriptors of this process until it runs its own program. While
// such a copy exists, the lock cannot be free.
func (s *Store) letGoPassed(f *file, h *hold) driver.Outcome {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if h.shared {
		return s.letGoPassedShared(f, h)
	}
	h.conn.close()
	c, err := s.lock(f, false, func(*conn) error { return nil })
	if err == nil {
		s.giveBack(f, c)
		return driver.OutcomeReleased
	}
	if f.spare != nil {
		b := buffers.Get().(*buffer)
		defer buffers.Put(b)
		if rec := b.read(f.spare); rec.fence > h.fence || s.hasOtherWriter(f.spare) {
			return driver.OutcomeReleased // the lock was free, and another process has it now
		}
	}
	return driver.OutcomeInherited
}

// hasOtherWriter reports whether the kernel's list shows that another process took the exclusive
// lock on the file of c. The lock of a child that inherited the file does not count, because the
// list shows the process that took the lock, which is this process.
func (s *Store) hasOtherWriter(c *conn) bool {
	locks, _, err := s.seen.list(s.dir, c.ino)
	return err == nil && slices.ContainsFunc(locks[c.ino], func(l kernelLock) bool { return !l.shared && l.pid != machine().pid })
}

// letGoPassedShared is letGoPassed for a shared hold. Here a try of the lock shows nothing about
// the child, because other readers may have the lock, too. Instead, letGoPassedShared counts the
// locks of this process in the kernel's list, before and after it closes the descriptor. If
// the number went down, the lock ended with the descriptor, so no child has the lock.
func (s *Store) letGoPassedShared(f *file, h *hold) driver.Outcome {
	before, err1 := s.seen.ownLocks(s.dir, h.conn)
	h.conn.close()
	after, err2 := s.seen.ownLocks(s.dir, h.conn)
	f.wake()
	if err1 == nil && err2 == nil && after < before {
		return driver.OutcomeReleased
	}
	return driver.OutcomeInherited
}
