package fence

import (
	"container/list"
	"context"
	"sync"
)

// A Register guards resources of this process. It remembers the greatest fence of each name, in
// memory: other processes do not see it, and it is empty after a restart. A name costs about 200
// bytes. The zero Register is ready for use, by any number of goroutines.
type Register struct {
	// Max bounds how many names are remembered; 0 is no bound. Set it before the first use, if
	// strangers choose the names. When there are more, the name that was not used for longest is
	// forgotten, unless a function of Do runs for it. A holder that was paused since before that
	// last use is then no longer refused.
	Max int

	mu     sync.Mutex
	names  map[string]*entry
	recent list.List // of *entry, the last used in front; empty without Max
}

type entry struct {
	name    string
	seen    uint64
	running map[uint64]int // functions of Do at work, by their fences
	changed chan struct{}  // closed when one of them has ended
	busy    int            // calls of Do that wait or run
	place   *list.Element  // in recent
}

// Do runs write, unless a greater fence was here before: then it returns a *StaleError. While write
// runs, functions with a greater fence wait until it has returned or ctx ends, and those with a
// smaller one are refused. So none of them runs at the same time as, or after, the write of a later
// holder. Functions with the same fence run at the same time.
//
// Do returns the error of write, or the error of ctx if it did not run.
func (r *Register) Do(ctx context.Context, name string, fence uint64, write func() error) error {
	if err := r.enter(ctx, name, fence); err != nil {
		return err
	}
	defer r.leave(name, fence)
	return write()
}

// Check remembers fence, and returns a *StaleError if a greater one was here
// before. A write that follows is guarded only if the caller holds a mutex over
// both; Do needs none.
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
		e = &entry{name: name}
		r.names[name] = e
	}
	if r.Max > 0 {
		r.used(e)
	}
	return e
}

// used keeps the names in the order of their last use, and their number within
// Max. A name in use does not count as one that was not used for long.
func (r *Register) used(e *entry) {
	if e.place == nil {
		e.place = r.recent.PushFront(e)
	}
	r.recent.MoveToFront(e.place)
	for last := r.recent.Back(); len(r.names) > r.Max && last != e.place; {
		oldest := last.Value.(*entry)
		last = last.Prev()
		if oldest.busy == 0 {
			r.recent.Remove(oldest.place)
			delete(r.names, oldest.name)
		}
	}
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
	e.busy++
	for {
		err := e.raise(name, fence)
		if err == nil && e.older(fence) {
			if err = r.await(ctx, e); err == nil {
				continue
			}
		}
		if err != nil {
			e.busy--
			return err
		}
		break
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
	e.busy--
	if e.running[fence]--; e.running[fence] == 0 {
		delete(e.running, fence)
	}
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}
