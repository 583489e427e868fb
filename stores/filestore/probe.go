package filestore

import (
	"errors"
	"io/fs"
)

// locksByTrying finds out how the lock of a file is held, by trying to take it. It is for systems
// that have no list of locks. While locksByTrying has the lock for an instant, another process that
// tries the lock may be refused; padlock then tries again. readers has those that are recorded
// in the file. If readers have the lock, the result has one lock for each of them.
func (s *Store) locksByTrying(path string, readers map[int]readerRecord) ([]kernelLock, error) {
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
		return []kernelLock{{}}, nil // the record names the holder
	case err != nil:
		return nil, err
	}
	defer c.unlock()
	switch err := c.tryLock(false); {
	case err == errBusy:
		locks, bound := []kernelLock{{shared: true}}, 0
		for _, s := range readers {
			if !s.detached() {
				bound++
			}
		}
		for len(locks) < bound {
			locks = append(locks, kernelLock{shared: true})
		}
		return locks, nil
	case err != nil:
		return nil, err
	}
	return nil, nil
}
