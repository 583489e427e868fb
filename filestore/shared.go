package filestore

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The gate is a second lock file. A process holds the gate's lock for the few microseconds in which
// it changes the record under a shared lock, or converts its lock. Taking an exclusive lock needs
// no gate. If a promotion is under way, the record shows that, and another process that has just
// taken the lock gives it back.

const (
	// gatePatience is how long a call waits for the gate. Only a process that was stopped while it
	// held the gate holds it for that long.
	gatePatience = 2 * time.Second

	// gateSpins is how many tries a call makes before it sleeps between tries. Normally another
	// process leaves the gate within that time.
	gateSpins = 20
)

// enterGate opens and locks the gate of f. To leave the gate, the caller closes the result.
func (s *Store) enterGate(ctx context.Context, f *file) (*conn, error) {
	path := gatePath(f.path)
	deadline := time.Now().Add(s.config.gatePatience)
	for i := 0; ; i++ {
		c, err := s.tryGate(path)
		if err != errBusy {
			return c, err
		}
		if i < gateSpins {
			runtime.Gosched()
			continue
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: %s is locked for longer than %v, by a stopped process or by another program; end that process", driver.ErrUnavailable, path, s.config.gatePatience)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// tryGate makes one try to lock the gate. It returns errBusy if another process holds the gate, or
// has replaced its file.
func (s *Store) tryGate(path string) (*conn, error) {
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

// writeSlot writes the holder of a shared hold into a slot, where other processes can read it. If
// that fails, other processes see only the process number of the holder.
func (h *hold) writeSlot(epoch uint64) {
	h.slotID = newID()
	h.slot = takeSlot(h.conn, &slot{boot: machine().boot, id: h.slotID, epoch: epoch, owner: ownerOf(&h.holder, h.since)})
}

// change applies the function edit to the head record while h is held. If h is shared, change holds
// the gate meanwhile. If h is exclusive and its record was lost, change also restores the record.
func (s *Store) change(ctx context.Context, f *file, h *hold, edit func(*record)) error {
	if h.shared {
		gate, err := s.enterGate(ctx, f)
		if err != nil {
			return err
		}
		defer gate.close()
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	if h.shared {
		rec := b.read(h.conn)
		if rec.newer {
			return newer(f.path)
		}
		b.next.setShared(f, h, rec, s.config.wall())
	} else {
		b.next.setExclusive(f, h)
	}
	edit(&b.next)
	if err := b.write(h.conn); err != nil {
		return unavailable(f.path, err)
	}
	return nil
}

// wake wakes the waiters of f after the lock of c has become shared, because readers can come in
// now.
func (s *Store) wake(f *file, c *conn) {
	f.queue.wake()
	s.wakeNext(f, c, true)
	if _, size := c.state(); size == sizeWaited {
		wakeOthers(c)
	}
}

// arm makes the name stay taken until m, even if its holder dies.
func (s *Store) arm(ctx context.Context, f *file, h *hold, m moment) error {
	err := s.change(ctx, f, h, func(rec *record) {
		if h.shared {
			rec.readCool = laterOf(rec.readCool, m, s.config.wall())
		} else {
			rec.cool = m
		}
	})
	if err == nil {
		h.atLeast = m
	}
	return err
}
