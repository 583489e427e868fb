package holder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/internal/explore"
)

// A node is a state: the way there, what can come next, and its key.
type node struct {
	before *node
	label  string
	depth  int
	key    string
	next   []string
	broken error
}

func (n *node) path() (labels []string) {
	for ; n.before != nil; n = n.before {
		labels = append(labels, n.label)
	}
	slices.Reverse(labels)
	return labels
}

// visit makes a run of the system along the path of n, and notes what n is.
func (s *space) visit(t *testing.T, n *node) *node {
	defer func() {
		if p := recover(); p != nil { // the bubble has goroutines that never end
			n.broken = cmp.Or(n.broken, fmt.Errorf("goroutines are left: %v", p))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(s)
		for _, label := range n.path() {
			if !w.take(label) {
				panic(fmt.Sprintf("the step %q is not possible after %q", label, n.path()))
			}
			if n.broken = w.broken; n.broken != nil {
				break
			}
		}
		if n.broken == nil {
			n.key = w.key()
			for _, next := range w.steps() {
				n.next = append(n.next, next.label)
			}
		}
		w.end()
		n.broken = cmp.Or(n.broken, w.broken)
	})
	return n
}

// explore visits all states of s.
func (s *space) explore(ctx context.Context, t *testing.T, most int) explore.Result {
	next := func(n *node) (edges []explore.Edge[*node]) {
		if n.depth == s.steps {
			return nil
		}
		for _, label := range n.next {
			to := s.visit(t, &node{before: n, label: label, depth: n.depth + 1})
			edges = append(edges, explore.Edge[*node]{Label: label, To: to, Broken: to.broken})
		}
		return edges
	}
	return explore.Search(ctx, s.visit(t, &node{}), func(n *node) string { return n.key }, next, most)
}

var spaces = []space{
	{name: "one caller", ttl: 3 * time.Second, calls: []string{callTry}, acquires: [2]int{2, 0}, faults: 2, late: 1, steps: 9},
	{name: "two tries", ttl: 3 * time.Second, calls: []string{callTry}, acquires: [2]int{1, 1}, faults: 1, late: 1, steps: 8},
	{name: "waits", ttl: 3 * time.Second, calls: []string{callAcquire, callCancel}, acquires: [2]int{1, 1}, faults: 1, late: 1, steps: 8},
	{name: "close", ttl: 3 * time.Second, calls: []string{callAcquire, callCancel, callClose}, acquires: [2]int{1, 0}, faults: 1, late: 1, steps: 8},
}

func TestHolder(t *testing.T) {
	for _, s := range spaces {
		t.Run(s.name, func(t *testing.T) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r := s.explore(ctx, t, 1_000_000)
			t.Logf("%d states, %d transitions, %d steps, complete: %v, %.1f s", r.States, r.Transitions, r.Depth, r.Complete, time.Since(start).Seconds())
			if r.Broken != nil {
				t.Errorf("%v, after:", r.Broken)
				for _, label := range r.Trace {
					t.Log(label)
				}
			}
		})
	}
}
