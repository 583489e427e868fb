package command

import (
	"context"
	"net/url"
	"os"
	"strconv"

	"github.com/padlock-go/padlock/driver/fast"
)

// ownLock reports whether the holder of the lock has started this process, directly or not. The
// holder is then an outer "padlock run". The environment contains the name and the fence of its
// lock, and the store still reports the same fence.
func (f *front) ownLock(name string) bool {
	name, fence := f.outerLock(name)
	if fence == 0 {
		return false
	}
	store, err := f.url()
	outer := f.environment()
	if err != nil || outer.err != nil || f.withoutPassword(store) != f.withoutPassword(outer.url) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.ownPatience)
	defer cancel()
	s, err := f.locker.Inspect(ctx, name)
	if err != nil || s.Fence != fence {
		return false
	}
	for _, h := range s.Holds {
		if !h.Cooling {
			f.own = true
		}
	}
	return f.own
}

// outerLock looks in the environment for a lock on the given name that an outer padlock run holds.
// An outer padlock run is one that started this run. The first result is the name under which the
// store has the lock. It differs from the given name if this run uses slots, because each slot has
// a name of its own. The second result is the fence of the lock, or 0 if there is no such lock.
func (f *front) outerLock(name string) (derived string, fence uint64) {
	slot, isSlot := os.LookupEnv("PADLOCK_SLOT")
	if os.Getenv("PADLOCK_NAME") != name || isSlot != (f.set.slots > 0) {
		if f.set.slots > 0 {
			return name, 0
		}
		others, _ := url.ParseQuery(os.Getenv("PADLOCK_FENCES")) // an invalid text names no lock
		fence, _ = strconv.ParseUint(others.Get(name), 10, 64)
		return name, fence
	}
	fence, _ = strconv.ParseUint(os.Getenv("PADLOCK_FENCE"), 10, 64)
	if n, err := strconv.Atoi(slot); isSlot && err == nil {
		name = fast.SlotName(name, n)
	}
	return name, fence
}
