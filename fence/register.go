package fence

import (
	"context"
	"sync"
)

// A Register guards resources of this process. It remembers the greatest fence
// of each name for as long as it lives itself; a name costs some 100 bytes.
// The zero Register is ready for use, by any number of goroutines.
type Register struct {
	mu    sync.Mutex
	names map[string]*entry
}

type entry struct {
	seen    uint64
	running map[uint64]int // functions of Do at work, by their fences
	changed chan struct{}  // closed when one of them has ended
}

// Do runs write, unless a greater fence was here before: then it answers a
// *StaleError. While write runs, functions with a greater fence wait until it
// has returned or ctx ends, and those with a smaller one are refused; so none
// of them ever runs beside or after one of a later holder. Functions with the
// same fence run at the same time.
//
// Do returns what write returns, or the error of ctx if it did not run.
func (r *Register) Do(ctx context.Context, name string, fence uint64, write func() error) error {
	if err := r.enter(ctx, name, fence); err != nil {
		return err
	}
	defer r.leave(name, fence)
	return write()
}

// Check remembers fence, and answers a *StaleError if a greater one was here
// before. A write that follows is guarded only if the caller keeps a mutex of
// his own over both; Do needs none.
func (r *Register) Check(name string, fence uint64) error {
	if err := check(fence); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entry(name).raise(name, fence)
}

// Seen returns the greatest fence that was accepted for name; 0 if none was.
func (r *Register) Seen(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.names[name]; e != nil {
		return e.seen
	}
	return 0
}

// entry is called with mu held.
func (r *Register) entry(name string) *entry {
	e := r.names[name]
	if e == nil {
		if r.names == nil {
			r.names = make(map[string]*entry)
		}
		e = &entry{}
		r.names[name] = e
	}
	return e
}

func (e *entry) raise(name string, fence uint64) error {
	if fence < e.seen {
		return &StaleError{name, fence, e.seen}
	}
	e.seen = fence
	return nil
}

// older reports whether a function of an earlier holder is at work.
func (e *entry) older(fence uint64) bool {
	for f := range e.running {
		if f < fence {
			return true
		}
	}
	return false
}

// enter waits until fence may begin. While it waits a greater one may come,
// and then it is too late.
func (r *Register) enter(ctx context.Context, name string, fence uint64) error {
	if err := check(fence); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(name)
	for {
		if err := e.raise(name, fence); err != nil {
			return err
		}
		if !e.older(fence) {
			break
		}
		if err := r.await(ctx, e); err != nil {
			return err
		}
	}
	if e.running == nil {
		e.running = make(map[uint64]int)
	}
	e.running[fence]++
	return nil
}

// await gives mu up until a function has ended.
func (r *Register) await(ctx context.Context, e *entry) error {
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	changed := e.changed
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Register) leave(name string, fence uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.names[name]
	if e.running[fence]--; e.running[fence] == 0 {
		delete(e.running, fence)
	}
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}
