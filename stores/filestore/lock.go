package filestore

import (
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// lock locks the file and calls whileLocked. If necessary, it first opens the file. Another process
// may have replaced the file since it was opened. So finally, Store.lock checks whether the path
// still leads to the same file. If the path leads to a new file, it starts again with the new file.
//
// The check comes after whileLocked, because whileLocked may mint a fence. If the check succeeds,
// that fence was minted before any process could make a new file. So fences keep their order.
//
// If an error is returned, the file is unlocked.
func (s *Store) lock(f *file, shared bool, whileLocked func(*conn) error) (*conn, error) {
	const replaced = 100
	for range replaced {
		c, err := s.openSpare(f)
		if err != nil {
			return nil, unavailable(f.path, err)
		}
		refused := c.tryLock(shared)
		switch refused {
		case nil:
			refused = whileLocked(c)
		case errBusy:
			refused = &refusal{}
		default:
			c.close()
			return nil, unavailable(f.path, refused)
		}
		same, err := c.current()
		switch {
		case err != nil:
			c.close()
			return nil, unavailable(f.path, err)
		case !same:
			c.close()
		case refused != nil:
			f.unlockSpare(c)
			return nil, refused
		default:
			return c, nil
		}
	}
	return nil, fmt.Errorf("%w: %s: the lock file is replaced again and again; find the program that does it", driver.ErrUnavailable, f.path)
}

// openSpare returns the spare descriptor, or a new one if there is none.
func (s *Store) openSpare(f *file) (*conn, error) {
	if c := f.spare; c != nil {
		f.spare = nil
		return c, nil
	}
	return s.openPath(f.path)
}

func (s *Store) openPath(path string) (*conn, error) {
	c, err := openConn(path, s.config.access)
	if tooMany(err) {
		s.evictAll()
		c, err = openConn(path, s.config.access)
	}
	if err == nil {
		c.patience = s.config.flockPatience
	}
	return c, err
}

// openToRead opens an existing lock file for reading.
func (s *Store) openToRead(path string) (*conn, error) {
	c, err := openForReading(path, s.config.access)
	if tooMany(err) {
		s.evictAll()
		c, err = openForReading(path, s.config.access)
	}
	return c, err
}

// keepSpare makes c, which was unlocked, the spare descriptor of f. If f already has a spare
// descriptor, or c could not be unlocked, keepSpare closes c instead.
func (f *file) keepSpare(c *conn) {
	if f.spare == nil && !c.stuck {
		f.spare = c
	} else {
		c.close()
	}
}

// unlockSpare unlocks c and keeps it as the spare descriptor. It wakes no waiter that polls, because
// nothing has changed for them (see giveBack).
func (f *file) unlockSpare(c *conn) {
	c.unlock()
	f.keepSpare(c)
}

// refresh makes sure that the spare descriptor belongs to the file to which the path leads.
func (s *Store) refresh(f *file) (err error) {
	if f.spare != nil {
		if same, err := f.spare.current(); err != nil || !same {
			f.drop()
		}
	}
	if f.spare == nil {
		if f.spare, err = s.openPath(f.path); err != nil {
			f.spare = nil
			return unavailable(f.path, err)
		}
	}
	return nil
}
