package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// Inspect implements driver.Admin. On Linux it takes no lock, so it disturbs no other process.
// On other systems it tries the lock, so another process's try may fail at that instant. If Inspect
// cannot know whether the name is free, it returns errors.ErrUnsupported together with a State that
// has one unknown Hold. So it never reports a held name as free. If a newer padlock or another
// program has written the lock file, the file cannot be read, or the path has something other than
// a file, it returns driver.ErrUnavailable.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return driver.State{}, err
	}
	if err := s.checkUsable(ctx); err != nil {
		return driver.State{}, err
	}
	state, err := s.stateAt(name)
	for i := 0; err == nil && doubtful(&state, i); i++ {
		time.Sleep(recordPause << i)
		next, err := s.stateAt(name)
		if err != nil {
			return next, err
		}
		keepClearer(&state, next)
	}
	return state, err
}

// stateAt looks once at the lock of a name.
func (s *Store) stateAt(name string) (driver.State, error) {
	path := filepath.Join(s.dir, fileName(name))
	c, rec, readers, err := s.readState(path)
	if errors.Is(err, fs.ErrNotExist) && s.dirThere() {
		return driver.State{Name: name, Path: path, Waiters: s.waitingAt("")}, nil
	}
	if err != nil {
		return driver.State{}, unavailable(path, err)
	}
	if rec.newer {
		return driver.State{}, newer(path)
	}
	locks, complete, err := s.locksOn(c, path, readers)
	state := s.stateOf(c, rec, readers, locks)
	state.Name, state.Path, state.Waiters = name, path, s.waitingAt(path)
	if err == nil && !complete && len(locks) == 0 {
		err = errContainer
	}
	if err != nil {
		state.Holds = []driver.Hold{{}}
	}
	if err == nil && len(state.Holds) == 0 { // a lock on what is no lock file is reported, even so
		if err = rec.hands(path); err == nil && c.unusable != nil {
			err = unavailable(path, c.unusable)
		}
	}
	return state, err
}

// A waiter takes the lock for an instant when it checks whether the lock is free. If Inspect or
// List reads the state at that instant, the waiter seems to be the holder. So if a state is
// doubtful (see doubtful), Inspect and List read it again, with pauses that double from one to the
// next.
//
// If processes wait for the lock, there are up to looksForWaiters more readings. Their pauses take
// 50 ms together, because the kernel may suspend a waiter while it has the lock. If no process
// waits, there are up to looksForRecord more readings, and their pauses take 3 ms together.
const (
	looksForWaiters = 7
	looksForRecord  = 3
)

// doubtful reports whether the state of a lock must be read again, because a waiter may look like
// the holder. There are two such cases:
//
//   - The state shows a lock for which the file has no record (see recordTries).
//   - Processes wait, and one process has the lock exclusively. The record names that process, but
//     the record may be old: the process may have released the lock and may be waiting again.
//
// The argument looks counts how many times the state has been read again.
func doubtful(state *driver.State, looks int) bool {
	foreign := foreigners(state.Holds) > 0
	if state.Waiters > 0 {
		exclusive := len(state.Holds) == 1 && !state.Holds[0].Shared
		return looks < looksForWaiters && (exclusive || foreign)
	}
	return looks < looksForRecord && foreign
}

// keepClearer replaces an earlier state of a lock by a later one. It keeps the earlier state if the
// later state has more locks without a record. A lock without a record may belong to a waiter that
// has the lock for an instant only.
func keepClearer(state *driver.State, next driver.State) {
	if foreigners(next.Holds) <= foreigners(state.Holds) {
		*state = next
	}
}

// locksOn returns the locks on the file of c. If there may be locks that are not visible, complete
// is false.
func (s *Store) locksOn(c *conn, path string, readers map[int]readerRecord) (locks []kernelLock, complete bool, err error) {
	if s.config.probes {
		if locks, err = s.locksByTrying(path, readers); err != nil {
			err = unavailable(path, err)
		}
		return locks, true, err
	}
	all, complete, err := s.seen.list(s.dir, c.ino)
	return all[c.ino], complete, err
}

// List implements driver.Admin. A file that only other programs have used may lack its lock's
// name. Then State.Name is empty, and State.Path shows the file. If there may be invisible locks,
// List returns the visible ones together with errors.ErrUnsupported. If List cannot read some
// files, it returns the states of all other files together with driver.ErrUnavailable. It also
// returns driver.ErrUnavailable if a newer padlock has written some of the files.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if err := s.checkUsable(ctx); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, unavailable(s.dir, err)
	}
	files := make([]string, len(entries))
	for i, entry := range entries {
		files[i] = entry.Name()
	}
	states, err := s.statesOf(ctx, files, prefix)
	for looks := 0; ; looks++ {
		files = files[:0]
		for i := range states {
			if doubtful(&states[i], looks) {
				files = append(files, filepath.Base(states[i].Path))
			}
		}
		if len(files) == 0 {
			return states, err
		}
		time.Sleep(recordPause << looks)
		later, laterErr := s.statesOf(ctx, files, prefix)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		states, err = withLater(states, later, looks), cmp.Or(err, laterErr)
	}
}

// withLater corrects the doubtful states in oldStates. The states in newStates come from another
// reading of the same files. If a lock is missing in newStates, the lock is free by now, and
// withLater drops it. Otherwise keepClearer chooses between the old state and the new one.
func withLater(oldStates, newStates []driver.State, looks int) []driver.State {
	byPath := map[string]driver.State{}
	for _, state := range newStates {
		byPath[state.Path] = state
	}
	kept := oldStates[:0]
	for _, state := range oldStates {
		if doubtful(&state, looks) {
			next, held := byPath[state.Path]
			if !held {
				continue
			}
			keepClearer(&state, next)
		}
		kept = append(kept, state)
	}
	return kept
}

// statesOf reads each of the given lock files once. It returns the states of the locks that are
// held or cool down, and whose names begin with prefix (see stateOfEntry).
func (s *Store) statesOf(ctx context.Context, files []string, prefix string) (states []driver.State, err error) {
	var locks map[uint64][]kernelLock
	complete := true
	if !s.config.probes {
		locks, complete, err = s.seen.list(s.dir, 0)
	}
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		state, ok, readErr := s.stateOfEntry(file, prefix, locks)
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

// stateOfEntry returns the state of the lock in one file. ok is false if the lock is free, or if
// the lock's name does not begin with prefix. If padlock has not written the file yet, the file
// does not contain the lock's name. Then stateOfEntry compares prefix with the file's own name (see
// compatible). It returns an error if the file cannot be read, or if a newer padlock has written
// it.
func (s *Store) stateOfEntry(file, prefix string, locks map[uint64][]kernelLock) (state driver.State, ok bool, err error) {
	a, ok := readablePart(file)
	if !ok || !compatible(a, prefix) {
		return driver.State{}, false, nil
	}
	path := filepath.Join(s.dir, file)
	c, rec, readers, err := s.readState(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || kindAt(path) != "":
		return driver.State{}, false, nil // the file was removed, or padlock does not use it
	case err != nil:
		return driver.State{}, false, unavailable(path, err)
	}
	on := locks[c.ino]
	if s.config.probes {
		if on, err = s.locksByTrying(path, readers); err != nil {
			return driver.State{}, false, unavailable(path, err)
		}
	}
	if rec.newer {
		err = newer(path)
	}
	state = s.stateOf(c, rec, readers, on)
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
	c, err := s.openToRead(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0
	case err != nil:
		return -1
	}
	defer c.close()
	return c.countMarks()
}

// compatible reports whether a file can belong to a lock whose name begins with prefix. The
// argument part is the readable part of the file's name. For a long lock name, that part is cut
// off, so it may be shorter than prefix.
func compatible(part, prefix string) bool {
	p := readable(prefix)
	n := min(len(part), len(p))
	return part[:n] == p[:n]
}

func (s *Store) stateOf(c *conn, rec record, readers map[int]readerRecord, locks []kernelLock) driver.State {
	state := driver.State{Fence: rec.fence, Waiters: -1, Holds: s.attribute(c, &rec, readers, locks)}
	exclusive := slices.ContainsFunc(locks, func(l kernelLock) bool { return !l.shared })
	for _, h := range rec.keepers(readers, s.config.wall()) {
		if !h.Cooling || !exclusive {
			state.Holds = append(state.Holds, h)
		}
	}
	return state
}

// readState reads a lock file. A holder may be writing the record at the same time, so readState
// reads a record again if it looks broken.
func (s *Store) readState(path string) (c *conn, rec record, readers map[int]readerRecord, err error) {
	if c, err = s.openToRead(path); err != nil {
		return nil, rec, nil, err
	}
	defer c.close()
	b := new(buffer) // not from the pool, because the record refers to it
	for range 3 {
		if rec = *b.read(c); rec.valid {
			readers, rec.unread = readReaders(c, rec.epoch)
		}
		switch {
		case rec.unread != nil:
			return nil, rec, nil, fmt.Errorf("it cannot be read: %w", rec.unread)
		case rec.valid:
			return c, rec, readers, nil
		}
		if rec.newer || rec.foreign {
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

// checkUsable is the first step of every method that does not use a file.
func (s *Store) checkUsable(ctx context.Context) error {
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
