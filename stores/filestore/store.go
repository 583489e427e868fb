package filestore

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/storekit"
)

// Store keeps locks in the files of one directory. It is safe for concurrent use. Two Stores on the
// same directory exclude each other, even in one process.
type Store struct {
	dir        string
	config     config
	guarantees driver.Guarantees
	seen       calibration
	done       chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	files  map[string]*file   // by the lock's name
	idle   map[*file]struct{} // unused files with a spare descriptor
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	fast.FileSharer
	fast.Recorder
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Open opens the directory dir, which must be an absolute path. If it does not exist, Open makes
// it, for this user only (0700).
//
// Open returns driver.ErrInvalid if dir is not an absolute path to a directory. It returns
// driver.ErrUnavailable, with advice, if the directory is not safe to use, because other users own
// it or can write to it, or because it is on a network file system.
func Open(dir string, opts ...Option) (*Store, error) {
	c := config{
		create: true, probes: !hasList, maxOpen: min(maxOpen, descriptorLimit()/8),
		wall: time.Now, recordLockPatience: recordLockPatience,
	}
	storekit.Apply(&c, opts)
	c.clock = cmp.Or(c.clock, driver.SystemClock())
	if dir != "" {
		dir = filepath.Clean(dir) // so that the directory that is checked is the one that is used
	}
	if err := prepareDir(dir, &c); err != nil {
		return nil, err
	}
	s := &Store{
		dir: dir, config: c, guarantees: promise(&c), seen: calibration{patience: c.flockPatience},
		done: make(chan struct{}), files: map[string]*file{}, idle: map[*file]struct{}{},
	}
	return s, nil
}

// Dir returns the directory.
func (s *Store) Dir() string { return s.dir }

// Location implements driver.Places. It returns the name of the lock file, which contains a
// readable part of the lock's name and 42 bits of its hash.
func (s *Store) Location(name string) (string, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return "", err
	}
	return fileName(name), nil
}

// StoreID implements driver.Places: a directory has no id.
func (s *Store) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }

// SamePlace implements driver.Places. It reports whether the other store keeps its locks in the
// same directory.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	if !ok {
		return false
	}
	here, err1 := os.Stat(s.dir)
	there, err2 := os.Stat(o.dir)
	if err1 != nil || err2 != nil {
		return s.dir == o.dir
	}
	return os.SameFile(here, there)
}

// Close frees every hold of this store, except those whose file was given to a child. Calls of Wait
// that are under way return driver.ErrClosed. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	files := s.files
	s.files = nil
	clear(s.idle)
	s.mu.Unlock()
	for _, f := range files {
		f.mu.Lock()
		for _, h := range f.holds {
			s.letGo(f, h)
		}
		f.holds = nil
		f.drop()
		f.mu.Unlock()
	}
	return nil
}
