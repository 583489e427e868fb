package filestore

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"github.com/padlock-go/padlock/driver"
)

// file is what this store knows about one lock file. Its mutex mu guards every field whose comment
// names no other mutex.
type file struct {
	name, path string
	freed      chan struct{} // has one message if the lock was freed: one waiter that polls looks at once

	mu    sync.Mutex
	holds []*hold
	spare *conn // open and unlocked, for the next Acquire
	old   *hold // a hold that has ended, to be reused for the next grant

	pins int // how many calls are using the file; guarded by Store.mu
}

// beginCall is the first step of every method that uses a file.
func (s *Store) beginCall(ctx context.Context, name string) (*file, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.enter(name)
}

// enter begins a call. It returns the file of a name, with the file's mutex locked. The caller must
// end the call with endCall.
func (s *Store) enter(name string) (*file, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, driver.ErrClosed
	}
	f := s.files[name]
	if f == nil {
		f = &file{name: name, path: filepath.Join(s.dir, fileName(name)), freed: make(chan struct{}, 1)}
		s.files[name] = f
	}
	f.pins++
	delete(s.idle, f)
	s.mu.Unlock()

	f.mu.Lock()
	select {
	case <-s.done: // Close has already dealt with this file
		s.endCall(f)
		return nil, driver.ErrClosed
	default:
		return f, nil
	}
}

// endCall ends a call. If nothing uses the file any more, the store forgets it. But if the file has
// a spare descriptor, the store keeps the file for the next Acquire. It keeps up to maxOpen such
// files.
func (s *Store) endCall(f *file) {
	f.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	f.pins--
	switch {
	case f.pins > 0 || s.closed:
	case f.spare == nil:
		s.collect(f)
	default:
		s.idle[f] = struct{}{}
		for other := range s.idle {
			if len(s.idle) <= s.config.maxOpen {
				break
			}
			s.evict(other)
		}
	}
}

// collect removes f from the store if f has no holds. The caller holds s.mu, and makes sure that no
// call is using f.
func (s *Store) collect(f *file) {
	if len(f.holds) == 0 {
		delete(s.files, f.name)
	}
}

// wake makes one waiter that polls look at the lock now.
func (f *file) wake() {
	select {
	case f.freed <- struct{}{}:
	default:
	}
}

// evict closes the descriptor of a file that no call is using. The caller holds s.mu, so that no
// call can begin.
func (s *Store) evict(f *file) {
	delete(s.idle, f)
	f.drop()
	s.collect(f)
}

// drop closes the spare descriptor.
func (f *file) drop() {
	if f.spare != nil {
		f.spare.close()
		f.spare = nil
	}
}

// evictAll closes every spare descriptor. It is called when the process has too many open files.
func (s *Store) evictAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.idle {
		s.evict(f)
	}
}

// find returns the hold of token, or nil.
func (f *file) find(token string) *hold {
	for _, h := range f.holds {
		if h.token == token {
			return h
		}
	}
	return nil
}

// newHold returns an empty hold.
func (f *file) newHold() *hold {
	h := f.old
	f.old = nil
	if h == nil {
		h = new(hold)
	}
	*h = hold{readerIndex: -1}
	return h
}

// reuse keeps h for the next grant, unless the timer of a reservation may still use h.
func (f *file) reuse(h *hold) {
	if !h.waited {
		f.old = h
	}
}

// forget removes h from the holds.
func (f *file) forget(h *hold) {
	f.holds = slices.DeleteFunc(f.holds, func(other *hold) bool { return other == h })
}
