package filestore

import (
	"errors"
	"io/fs"
)

// locksByTrying makes a try to find out how the lock of a file is held. It is for systems that have
// no list of locks. If the name is free or held by readers, the try takes the lock for an instant.
// Another process's try may fail at that instant; padlock repeats such tries. The argument slots
// has the readers that are recorded in the file.
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
		return []kernelLock{{}}, nil // the record names the holder
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
