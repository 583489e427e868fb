// Package group sorts the names of locks into groups, for metrics and statistics.
package group

import (
	"strings"
	"sync"
)

// Of returns the group of name: the text before the first ':' or '/', or the whole name if it has
// neither. Figures are kept for groups, because the number of names has no limit.
func Of(name string) string {
	if i := strings.IndexAny(name, ":/"); i >= 0 {
		return name[:i]
	}
	return name
}

// Most is how many groups a store has at most, without Other.
const Most = 100

// Other is the group of the names that have no group of their own because there are too many
// groups.
const Other = "_other"

// Bound limits the groups of each store. Its methods are safe for concurrent use.
type Bound struct {
	mu    sync.Mutex
	known map[string]map[string]bool // the groups of each store
}

// Limit returns group, or Other if the store has too many groups.
func (b *Bound) Limit(store, group string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.known[store]
	switch {
	case known[group]:
		return group
	case group == Other, len(known) >= Most:
		return Other
	case b.known == nil:
		b.known = map[string]map[string]bool{}
	}
	if known == nil {
		known = map[string]bool{}
		b.known[store] = known
	}
	group = strings.Clone(group) // otherwise the whole name would be kept
	known[group] = true
	return group
}
