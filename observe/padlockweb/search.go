package padlockweb

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/sampler"
)

// searchKey is everything on which the result of a search depends.
type searchKey struct{ prefix, filter string }

// searchPatience is how long a search in the store may take.
const searchPatience = 5 * time.Second

// list returns the rows in the order that the query asks for, with those that only the store knows.
// The note says why there may be more, or is "".
func (w *Web) list(ctx context.Context, s *sampler.Snapshot, v *visitor, q query) (all []row, note string) {
	more, note := w.search(ctx, s, v, q)
	all = append(rows(s, v, q), more...)
	if by := orders[q.Sort]; by != nil {
		slices.SortStableFunc(all, by)
	}
	return all, note
}

// search asks the store for names that match the filter and have no row in the snapshot, because
// there are too many names. It returns at most maxRows of them. The note says why there may be
// more, or is "".
func (w *Web) search(ctx context.Context, s *sampler.Snapshot, v *visitor, q query) (more []row, note string) {
	if s.Unshown == 0 || q.kind != "table" || q.Filter == "" {
		if s.Unshown > 0 {
			note = "There may be more names."
		}
		return nil, note
	}
	found, err := w.found.get(searchKey{v.prefix, q.Filter}, func() ([]sampler.Name, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), searchPatience)
		defer cancel()
		return w.searchStore(ctx, v, q)
	})
	if err != nil {
		note = "There may be more names that match, because the store could not be searched: " + printable.Name(v.reason(err, "it did not answer in time"))
	}
	lock := func(n *sampler.Name) string { // the name, or the file if that is all that is known
		if n.Name == "" {
			return "\x00" + n.Path
		}
		return n.Name
	}
	known := map[string]bool{}
	for i := range s.Names {
		known[lock(&s.Names[i])] = true
	}
	for i := range found {
		if !known[lock(&found[i])] && len(more) < maxRows {
			more = append(more, v.newRow(&found[i], q))
		}
	}
	if len(found) > maxRows {
		note = "There may be more names that match."
	}
	return more, note
}

// searchStore first lists the names that begin with the filter, which costs many stores little, and
// then all others. If that takes too long, it returns what it has found. Only one search is under
// way at a time.
func (w *Web) searchStore(ctx context.Context, v *visitor, q query) ([]sampler.Name, error) {
	select {
	case w.searching <- struct{}{}:
		defer func() { <-w.searching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var found []sampler.Name
	var err error
	for _, prefix := range []string{q.Filter, v.prefix} {
		if !strings.HasPrefix(prefix, v.prefix) {
			continue
		}
		states, problem := w.locker.List(ctx, prefix)
		err = problem
		for _, n := range sampler.DescribeAll(states, timeNow()) {
			if v.seesRow(&n) && q.matches(&n) {
				found = append(found, n)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b sampler.Name) int { return strings.Compare(a.Name, b.Name) })
	found = slices.CompactFunc(found, func(a, b sampler.Name) bool { return a.Name == b.Name && a.Path == b.Path })
	return found[:min(len(found), maxRows+1)], err
}
