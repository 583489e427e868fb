package filestore

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The record lock is a second lock file. It keeps two processes from changing the record at the
// same time while both have a shared lock. A process also has the record lock while it turns its
// shared lock into an exclusive one, or the reverse. It has it only for a few microseconds.
//
// A process that takes an exclusive lock from the start does not need the record lock. If it gets
// the lock in the middle of a promotion, it finds the intent in the record and gives the lock back.

const (
	// recordLockPatience is how long a call waits for the record lock. A process has it for a
	// longer time only if it was stopped meanwhile.
	recordLockPatience = 2 * time.Second

	// recordLockSpins is how many times a call tries to get the record lock before it sleeps
	// between tries. Normally the process that has it releases it in that time.
	recordLockSpins = 20
)

// lockRecord opens and locks the record lock of f. To release it, the caller closes the result.
func (s *Store) lockRecord(ctx context.Context, f *file) (*conn, error) {
	path := recordLockPath(f.path)
	deadline := time.Now().Add(s.config.recordLockPatience)
	for i := 0; ; i++ {
		c, err := s.tryRecordLock(path)
		if err != errBusy {
			return c, err
		}
		if i < recordLockSpins {
			runtime.Gosched()
			continue
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: %s is locked for longer than %v, by a stopped process or by another program; end that process", driver.ErrUnavailable, path, s.config.recordLockPatience)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// tryRecordLock tries once to get the record lock. It returns errBusy if another process has it, or
// has replaced its file.
func (s *Store) tryRecordLock(path string) (*conn, error) {
	c, err := s.openPath(path)
	if err != nil {
		return nil, unavailable(path, err)
	}
	err = c.tryLock(false)
	same := false
	if err == nil {
		same, err = c.current()
	}
	if err == nil && same {
		return c, nil
	}
	c.close()
	if err == nil || err == errBusy {
		return nil, errBusy
	}
	return nil, unavailable(path, err)
}

// recordReader writes the holder of a shared hold into a readerRecord, where other processes can
// read it. If that fails, other processes see only the process number of the holder.
func (h *hold) recordReader(epoch uint64, wall time.Time) {
	h.readerID = newID()
	s := readerRecord{boot: machine().boot, id: h.readerID, epoch: epoch, owner: ownerOf(&h.holder, h.since)}
	var buf [readerSize]byte
	if i := freeReader(h.conn, epoch, wall); i >= 0 && h.conn.pwrite(s.encode(buf[:0]), readerOffset(i)) == nil {
		h.readerIndex = i
	}
}

// changeRecord calls edit with the head record of the lock that h has, and writes the record. If h
// is shared, changeRecord has the record lock during the change. If h is exclusive, it builds the
// whole record anew, so a record that was lost is restored.
func (s *Store) changeRecord(ctx context.Context, f *file, h *hold, edit func(*record)) error {
	if h.shared {
		recordLock, err := s.lockRecord(ctx, f)
		if err != nil {
			return err
		}
		defer recordLock.close()
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	rec := b.read(h.conn)
	if err := rec.hands(f.path); err != nil {
		return err
	}
	if h.shared {
		b.next.setShared(f, h.fence, rec, s.config.wall())
	} else {
		b.next.setExclusive(f, h)
	}
	edit(&b.next)
	if err := b.write(h.conn); err != nil {
		return unavailable(f.path, err)
	}
	return nil
}
