package filestore

import (
	"context"
	"os"
	"syscall"

	"github.com/padlock-go/padlock/driver"
)

// File implements driver.FileSharer. On Windows, where a lock belongs to one process, it returns
// errors.ErrUnsupported. If a child unlocks the file (LOCK_UN, flock -u), the hold ends for all
// processes; Extend notices that.
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
	h.passed = true
	return file, nil
}

// letGoPassed releases a hold whose file was given to a child process. It closes this store's
// descriptor, but it does not unlock the file, because the child would lose the lock, too. Then
// letGoPassed tries the lock to find out whether another process still has it. While a child
// process is being started, that child has copies of all descriptors of this process. The copies
// exist until the child runs its own program. So letGoPassed first waits until no child process is
// being started.
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
		return driver.Released
	}
	if f.spare != nil {
		s.wakeNext(f, f.spare, false) // the first waiter now watches the file, and sees the child close it
		b := buffers.Get().(*buffer)
		defer buffers.Put(b)
		if rec := b.read(f.spare); rec.fence > h.fence {
			return driver.Released // the lock was free, and another process has it now
		}
	}
	return driver.Inherited
}

// letGoPassedShared is letGoPassed for a shared hold. It reads the kernel's list of locks and does
// not try the lock, because a try would also fail if there are other readers.
func (s *Store) letGoPassedShared(f *file, h *hold) driver.Outcome {
	before, err1 := s.seen.ownLocks(s.dir, h.conn)
	h.conn.close()
	after, err2 := s.seen.ownLocks(s.dir, h.conn)
	f.queue.wake()
	if s.refresh(f) == nil {
		s.wakeNext(f, f.spare, false)
	}
	if err1 == nil && err2 == nil && after < before {
		return driver.Released
	}
	return driver.Inherited
}
