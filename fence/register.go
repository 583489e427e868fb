package fence

import (
	"container/list"
	"context"
	"sync"
)

// A Register guards resources in this process. It remembers the greatest fence of each name, in
// memory: other processes do not see it, and it is empty after a restart. A name costs about 200
// bytes. The zero Register is ready for use. It is safe for concurrent use.
type Register struct {
	// Max bounds how many names are remembered; 0 means no bound. If clients that you do not trust
	// choose the names, set Max before the first use. If there are more names than Max, the
	// Register forgets those that were not used for the longest time. It keeps a name while a call
	// of Do for that name is under way. If a name is forgotten, its greatest fence is forgotten
	// too, so the Register accepts even an old fence of a holder that was paused.
	Max int

	mu     sync.Mutex
	names  map[string]*entry
	recent list.List // the values are of type *entry, sorted by their last use, latest first; empty if Max is 0
}

type entry struct {
	name    string
	seen    uint64
	running map[uint64]int // for each fence, how many functions are running
	changed chan struct{}  // closed when one of the running functions has ended
	busy    int            // how many calls of Do are waiting or running
	place   *list.Element  // the position in Register.recent
}

// Do calls write, if fence is at least as great as every fence that Do has seen for name. Otherwise
// it returns a *StaleError and does not call write.
//
// While write runs, a call of Do with a greater fence waits until write has returned, or until its
// own ctx ends. A call with a smaller fence returns a *StaleError. So functions with different
// fences never run at the same time, and after a function with a greater fence no function with a
// smaller fence begins. Functions with the same fence may run at the same time.
//
// Do returns the error of write, or the error of ctx if write was not called.
func (r *Register) Do(ctx context.Context, name string, fence uint64, write func() error) error {
	if err := r.enter(ctx, name, fence); err != nil {
		return err
	}
	defer r.leave(name, fence)
	return write()
}

// Check remembers fence, and returns a *StaleError if name has had a greater one already. A write
// after the Check is guarded only if the caller holds a mutex during the Check and the write. To
// write without such a mutex, use Register.Do.
func (r *Register) Check(name string, fence uint64) error {
	if err := check(fence); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entry(name).raise(name, fence)
}

// Seen returns the greatest fence that was accepted for name, or 0.
func (r *Register) Seen(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.names[name]; e != nil {
		return e.seen
	}
	return 0
}

// entry returns the entry of name. The caller holds mu.
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
		r.markUsed(e)
	}
	return e
}

// markUsed makes e the name that was used last. If there are more names than Max, it removes those
// that were not used for the longest time. It does not remove a name for which a call of Do is
// under way.
func (r *Register) markUsed(e *entry) {
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

// hasOlder reports whether a function with a smaller fence is running.
func (e *entry) hasOlder(fence uint64) bool {
	for f := range e.running {
		if f < fence {
			return true
		}
	}
	return false
}

// enter waits until all functions with smaller fences have returned. If a call with a greater fence
// comes in the meantime, enter returns a *StaleError.
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
		if err == nil && e.hasOlder(fence) {
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

// await waits until a call of Do has ended. It unlocks mu while it waits.
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
