package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// kernelLock is one lock in the kernel's list.
type kernelLock struct {
	pid    int
	shared bool
}

// These errors wrap errors.ErrUnsupported. They say why the store cannot know the holder of a lock.
var (
	errCannotKnow = fmt.Errorf("cannot know who holds a file lock: %w", errors.ErrUnsupported)
	errNoList     = fmt.Errorf("%w: this system has no /proc/locks", errCannotKnow)
	errContainer  = fmt.Errorf("%w: locks of processes outside this container are not visible here; run this on the host, or the container with the host's pid namespace", errCannotKnow)
)

// Inspect implements driver.Inspector. On Linux it takes no lock, so it disturbs no other process.
// On other systems it tries the lock, so another process's try may fail at that instant. If Inspect
// cannot know whether the name is free, it returns errors.ErrUnsupported together with a State that
// has one unknown Hold. So it never reports a held name as free. If a newer padlock has written the
// lock file, it returns driver.ErrUnavailable.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return driver.State{}, err
	}
	if err := s.usable(ctx); err != nil {
		return driver.State{}, err
	}
	path := filepath.Join(s.dir, fileName(name))
	c, rec, slots, err := readState(path)
	if errors.Is(err, fs.ErrNotExist) && s.dirThere() {
		return driver.State{Name: name, Path: path, Waiters: s.waitingAt("")}, nil
	}
	if err != nil {
		return driver.State{}, unavailable(path, err)
	}
	if rec.newer {
		return driver.State{}, newer(path)
	}
	locks, complete, err := s.locksOn(c, path, slots)
	state := s.stateOf(c, rec, slots, locks)
	state.Name, state.Path, state.Waiters = name, path, s.waitingAt(path)
	if err == nil && !complete && len(locks) == 0 {
		err = errContainer
	}
	if err != nil {
		state.Holds = []driver.Hold{{}}
	}
	return state, err
}

// locksOn returns the locks on the file of c. complete is false if there may be locks that are not
// visible.
func (s *Store) locksOn(c *conn, path string, slots map[int]slot) (locks []kernelLock, complete bool, err error) {
	if s.config.probes {
		locks, err = s.locksByTrying(path, slots)
		return locks, true, err
	}
	all, complete, err := s.seen.list(s.dir, c.ino)
	return all[c.ino], complete, err
}

// List implements driver.Lister. If only other programs have used a file, the file may not contain
// its lock's name. Then State.Name is empty, and State.Path shows the file. If there may be locks
// that are not visible, List returns the others together with errors.ErrUnsupported. If a newer
// padlock has written some of the files, List returns their States together with
// driver.ErrUnavailable.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, unavailable(s.dir, err)
	}
	var locks map[uint64][]kernelLock
	complete := true
	if !s.config.probes {
		locks, complete, err = s.seen.list(s.dir, 0)
	}
	var states []driver.State
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		state, ok, readErr := s.stateOfEntry(entry.Name(), prefix, locks)
		if ok {
			states = append(states, state)
		}
		err = cmp.Or(err, readErr)
	}
	if err == nil && !complete {
		err = errContainer
	}
	return states, err
}

// stateOfEntry returns the state of a file if it is held or cools down, and its name begins with
// prefix or may begin with it. The only error that it returns is the one for a file that a newer
// padlock has written.
func (s *Store) stateOfEntry(file, prefix string, locks map[uint64][]kernelLock) (state driver.State, ok bool, err error) {
	a, ok := readablePart(file)
	if !ok || !compatible(a, prefix) {
		return driver.State{}, false, nil
	}
	path := filepath.Join(s.dir, file)
	c, rec, slots, err := readState(path)
	if err != nil {
		return driver.State{}, false, nil // the file was removed
	}
	on := locks[c.ino]
	if s.config.probes {
		if on, err = s.locksByTrying(path, slots); err != nil {
			return driver.State{}, false, nil
		}
	}
	if rec.newer {
		err = newer(path)
	}
	state = s.stateOf(c, rec, slots, on)
	state.Path = path
	state.Name = string(rec.name)
	if !rec.valid {
		state.Name = nameOf(file)
	}
	if len(state.Holds) == 0 {
		return state, false, err
	}
	state.Waiters = s.waitingAt(path)
	return state, state.Name == "" || strings.HasPrefix(state.Name, prefix), err
}

// waitingAt counts the waiters for the lock file at path. It returns -1 if their number is unknown.
func (s *Store) waitingAt(path string) int {
	if !s.guarantees.FIFO {
		return -1
	}
	c, err := openForReading(path)
	if err != nil {
		return 0
	}
	defer c.close()
	return s.waiting(c)
}

// compatible reports whether a file with this readable part may belong to a name that begins with
// prefix.
func compatible(part, prefix string) bool {
	p := readable(prefix)
	n := min(len(part), len(p))
	return part[:n] == p[:n]
}

func (s *Store) stateOf(c *conn, rec record, slots map[int]slot, locks []kernelLock) driver.State {
	state := driver.State{Fence: rec.fence, Waiters: -1, Holds: s.attribute(c, &rec, slots, locks)}
	wall := s.config.wall()
	left, exclusive := rec.cool.left(wall), false
	for _, l := range locks {
		exclusive = exclusive || !l.shared
	}
	if len(locks) == 0 {
		left = max(left, rec.readCool.left(wall))
	}
	switch {
	case left > 0 && rec.lease.taken():
		state.Holds = append(state.Holds, rec.leased(wall.Add(left)))
	case left > 0 && !exclusive:
		state.Holds = append(state.Holds, rec.coolDown(wall.Add(left)))
	}
	return state
}

// readState reads a lock file. A holder may be writing the record at the same time, so readState
// reads a record again if it looks broken.
func readState(path string) (c *conn, rec record, slots map[int]slot, err error) {
	if c, err = openForReading(path); err != nil {
		return nil, rec, nil, err
	}
	defer c.close()
	b := new(buffer) // not from the pool, because the record refers to it
	for range 3 {
		if rec = *b.read(c); rec.valid {
			return c, rec, readSlots(c, rec.epoch), nil
		}
		if rec.newer {
			break
		}
	}
	return c, rec, nil, nil
}

// dirThere reports whether the directory exists. If it does not, all names would look free.
func (s *Store) dirThere() bool {
	st, err := os.Stat(s.dir)
	return err == nil && st.IsDir()
}

// usable is the first step of every method that does not use a file.
func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrClosed
	}
	return nil
}
