package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/open"
)

// ownLock reports whether a padlock run around this one holds the lock. In that case the
// environment names the lock, and the fence in the environment is still the newest fence.
func (f *front) ownLock() bool {
	fence, err := strconv.ParseUint(os.Getenv("PADLOCK_FENCE"), 10, 64)
	if err != nil || os.Getenv("PADLOCK_NAME") != f.name {
		return false
	}
	store, err := f.url()
	outer, _, outerErr := open.EnvURL()
	if err != nil || outerErr != nil || withoutPassword(store) != withoutPassword(outer) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := f.locker.Inspect(ctx, f.name)
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
