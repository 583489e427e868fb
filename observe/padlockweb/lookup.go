package padlockweb

import (
	"context"
	"strings"
	"time"

	"github.com/padlock-go/padlock/observe/sampler"
)

// byName returns the rows of the snapshot by their names.
func byName(s *sampler.Snapshot) map[string]*sampler.Name {
	all := make(map[string]*sampler.Name, len(s.Names))
	for i := range s.Names {
		all[s.Names[i].Name] = &s.Names[i]
	}
	return all
}

const (
	lookPatience = 5 * time.Second // bounds a request for one name
	slotPatience = 2 * time.Second // how long of that the list of its slots may take
)

// isComplete reports whether a name without a row is free.
func isComplete(s *sampler.Snapshot) bool {
	return s.Err == nil && s.Incomplete == nil && !s.Taken.IsZero()
}

// lookUp returns the state of a name that has no row. If the sampler does not know the state for
// certain, lookUp asks the store. It lists the slots of the name only if the snapshot may lack some
// of them, because a list can be expensive for the store, and anybody can ask for many names.
func (w *Web) lookUp(ctx context.Context, s *sampler.Snapshot, name string) *sampler.Name {
	if remembered, ok := w.sampler.Lookup(name); ok && s.Err == nil && s.Incomplete == nil {
		return &remembered
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	if isComplete(s) && strings.HasPrefix(name, s.Prefix) { // no slot is held
		n, _ := sampler.Look(ctx, w.locker, name, 0)
		return &n
	}
	n, _ := sampler.LookAll(ctx, w.locker, name, slotPatience) // after an error, the state is unknown
	return &n
}
