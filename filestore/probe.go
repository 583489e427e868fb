package filestore

import (
	"errors"
	"io/fs"
)

// locksByTrying finds out who has the lock of a file by trying it, on systems that have
// no list of locks. It has the lock for an instant where the name is free or
// read, so that somebody's try may be refused in that instant; padlock's own
// tries are made again. slots are the readers that the file tells of.
func (s *Store) locksByTrying(path string, slots map[int]slot) ([]kernelLock, error) {
	c, err := s.openPath(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.close()
	switch err := c.tryLock(true); {
	case err == errBusy:
		return []kernelLock{{}}, nil // of whom the record tells
	case err != nil:
		return nil, err
	}
	defer c.unlock()
	switch err := c.tryLock(false); {
	case err == errBusy:
		locks := []kernelLock{{shared: true}}
		for len(locks) < len(slots) {
			locks = append(locks, kernelLock{shared: true})
		}
		return locks, nil
	case err != nil:
		return nil, err
	}
	return nil, nil
}
