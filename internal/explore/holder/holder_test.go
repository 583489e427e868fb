package holder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/internal/explore"
	"github.com/padlock-go/padlock/internal/server"
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
func (s *space) visit(t *testing.T, n *node) (visited *node) {
	visited = n
	defer recovered(&n.broken)
	synctest.Test(t, func(*testing.T) {
		w := newWorld(s)
		for _, label := range append(slices.Clone(s.from), n.path()...) {
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

// recovered notes that the goroutines of a bubble never end.
func recovered(broken *error) {
	if p := recover(); p != nil {
		*broken = cmp.Or(*broken, fmt.Errorf("goroutines are left: %v", p))
	}
}

// again returns an error if a second run along the path of n ends in another state.
func (s *space) again(t *testing.T, n *node) error {
	m := s.visit(t, &node{before: n.before, label: n.label})
	if m.key != n.key || !slices.Equal(m.next, n.next) {
		return fmt.Errorf("a second run differs:\n%s\n%s\n%q\n%q", n.key, m.key, n.next, m.next)
	}
	return nil
}

// sameFuture returns an error if two ways to one state differ in the states that come next. It looks at
// one pair in 64. So the key of a state says everything that decides what comes next, as far as this finds.
func (s *space) sameFuture(t *testing.T, n *node) error {
	known, met := s.known.LoadOrStore(n.key, n)
	if !met || s.met.Add(1)%64 != 0 {
		return nil
	}
	m := known.(*node)
	if a, b := s.future(t, n), s.future(t, m); !slices.Equal(a, b) {
		return fmt.Errorf("two ways lead to one state, and then to %d and %d states:\n%q\n%q\n%q\n%q", len(a), len(b), n.path(), m.path(), n.next, m.next)
	}
	return nil
}

// future returns the keys of the states that come next.
func (s *space) future(t *testing.T, n *node) (keys []string) {
	for _, label := range n.next {
		keys = append(keys, s.visit(t, &node{before: n, label: label}).key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// explore visits all states of s.
func (s *space) explore(t *testing.T) explore.Result {
	next := func(n *node) (edges []explore.Edge[*node]) {
		if n.depth == s.steps {
			return nil
		}
		for _, label := range n.next {
			to := s.visit(t, &node{before: n, label: label, depth: n.depth + 1})
			if s.visits.Add(1)%64 == 0 && to.broken == nil {
				to.broken = s.again(t, to)
			}
			if to.broken == nil {
				to.broken = s.sameFuture(t, to)
			}
			edges = append(edges, explore.Edge[*node]{Label: label, To: to, Broken: to.broken})
		}
		return edges
	}
	return explore.Search(t.Context(), s.visit(t, &node{}), func(n *node) string { return n.key }, next, 10_000_000)
}

const ttl = 3 * time.Second

// held are the steps after which A has the lock.
var held = []string{"A calls TryAcquire", "A's acquire arrives and is answered"}

// both are the steps after which A and B have locks of one Locker.
var both = append(held[:2:2], "B calls TryAcquire", "B's acquire arrives and is answered")

// again are the steps after which A has the lock again.
var again = []string{"A calls Release", "A's release arrives and is answered", "A calls TryAcquire", "A's acquire with token 2 arrives and is answered"}

// late are the steps after which A has the lock again, while B's Ask has seen it with its former fence.
var late = slices.Concat(held, []string{"B calls Ask", "B's look arrives and is answered"}, again)

// asked are the steps after which A has the lock again, and B's question is still there.
var asked = slices.Concat(held, []string{"B calls Ask", "B's look arrives and is answered", "B's question arrives and is answered"}, again)

// waiting are the steps after which A waits for B.
var waiting = []string{"B calls Acquire", "B's acquire arrives and is answered", "A calls Acquire", "A's acquire arrives and is answered"}

var (
	tries = []string{callTry}
	waits = []string{callAcquire, callCancel}

	askers = []string{callTry, callAsk}
)

var spaces = []space{
	{name: "one caller", calls: tries, acquires: [3]int{2, 0}, faults: 2, late: 1, steps: 8, deep: 11},
	{name: "two tries", calls: tries, acquires: [3]int{1, 1}, faults: 1, late: 1, steps: 7, deep: 9},
	{name: "two wait", calls: waits, acquires: [3]int{1, 1}, faults: 1, late: 1, steps: 6, deep: 8},
	{name: "waits for another", calls: waits, from: waiting, acquires: [3]int{1, 1}, faults: 1, late: 1, steps: 6, deep: 8},
	{name: "waits, once, observed", calls: waits, acquires: [3]int{1, 0}, faults: 2, late: 1, steps: 7, deep: 10, observed: true},
	{name: "Wait", calls: waits, acquires: [3]int{1, 0}, faults: 1, late: 1, steps: 7, deep: 10, wait: time.Second},
	{name: "Token", calls: tries, acquires: [3]int{2, 1}, faults: 2, late: 1, steps: 6, deep: 8, own: true},
	{name: "Close", calls: append(waits, callClose), acquires: [3]int{1, 0}, faults: 1, late: 1, steps: 7, deep: 9},
	{name: "held", calls: tries, from: held, acquires: [3]int{2, 1}, faults: 2, late: 1, steps: 6, deep: 7},
	{name: "held, observed", calls: append(tries, callCheck, callExtend), from: held, acquires: [3]int{1, 0}, asks: 1, faults: 2, late: 1, steps: 6, deep: 8, observed: true},
	{name: "HoldAtLeast", calls: tries, from: held, acquires: [3]int{1, 1}, faults: 1, late: 1, steps: 6, deep: 8, atLeast: 5 * time.Second},
	{name: "HoldAtMost", calls: tries, from: held, acquires: [3]int{1, 1}, faults: 1, late: 0, steps: 6, deep: 9, most: 4 * time.Second, observed: true},
	{name: "Shared", calls: tries, from: held, acquires: [3]int{1, 1}, faults: 1, late: 1, steps: 5, deep: 7, shared: true},
	{name: "readers", calls: append(tries, callPromote, callCancel), from: held, acquires: [3]int{1, 1}, asks: 1, faults: 1, late: 1, steps: 5, deep: 6, shared: true},
	{name: "modes", calls: append(tries, callPromote, callDemote), from: held, acquires: [3]int{1, 0}, asks: 2, faults: 2, late: 1, steps: 5, deep: 7, shared: true},
	{name: "NoRenewal", calls: append(tries, callCheck, callExtend), from: held, acquires: [3]int{1, 1}, asks: 1, faults: 1, late: 1, steps: 5, deep: 8, noRenewal: true, unasked: true, observed: true},
	{name: "batch", calls: tries, from: both, acquires: [3]int{1, 1}, faults: 1, late: 1, steps: 5, deep: 8, batch: true},
	{name: "asked", calls: askers, from: held, acquires: [3]int{2}, asks: 1, askers: 1, faults: 1, late: 1, steps: 5, deep: 8},
	{name: "a question of before", calls: askers, from: asked, acquires: [3]int{2}, asks: 2, askers: 1, faults: 1, late: 1, steps: 5, deep: 8},
	{name: "two ask", calls: askers, from: late, acquires: [3]int{2}, asks: 1, askers: 2, steps: 5, deep: 8},
	{name: "two ask again", calls: askers, from: append(asked, "B calls Ask", "C calls Ask"), acquires: [3]int{2}, asks: 2, askers: 2, steps: 5, deep: 8},
	{name: "Export", calls: append(tries, callExport, callCheck), from: held, acquires: [3]int{1, 0}, asks: 1, faults: 1, late: 0, steps: 7, deep: 9, noRenewal: true, unasked: true},
}

func TestHolder(t *testing.T) {
	for i := range spaces {
		s := &spaces[i]
		t.Run(s.name, func(t *testing.T) {
			start := time.Now()
			if server.IsThorough() {
				s.steps = s.deep
			}
			r := s.explore(t)
			t.Logf("%d states, %d transitions, %d steps, complete: %v, %.1f s", r.States, r.Transitions, r.Depth, r.Complete, time.Since(start).Seconds())
			if r.Broken != nil {
				t.Errorf("%v\nspace: %s\n%s", r.Broken, s.name, strings.Join(slices.Concat(s.from, r.Trace), "\n"))
			}
		})
	}
}

// at visits the node behind some steps.
func (s *space) at(t *testing.T, labels ...string) *node {
	n := &node{}
	for _, label := range labels {
		n = &node{before: n, label: label}
	}
	return s.visit(t, n)
}

// A token that its caller sends again decides what comes next: with it A had a lock that B has taken, or
// never had one. So these are two states.
func TestTokensThatAreSentAgain(t *testing.T) {
	s := &space{name: "Token", calls: tries, acquires: [3]int{2, 1}, faults: 2, late: 1, own: true}
	then := []string{"B calls TryAcquire", "B's acquire arrives and is answered", "A's acquire arrives and is answered"}
	a := s.at(t, append([]string{"A calls TryAcquire", "A's acquire arrives, and the reply is lost", "time passes to A's next try", "time passes to the end of a lease in the store"}, then...)...)
	b := s.at(t, append([]string{"A calls TryAcquire", "A's acquire is lost", "time passes to A's next try"}, then...)...)
	if a.broken != nil || b.broken != nil || a.key == b.key {
		t.Errorf("%v, %v: both are %s", a.broken, b.broken, a.key)
	}
}

// A promotion that arrived keeps new readers out, also if its caller had no reply. So these are two states.
func TestPromotionWithoutAReply(t *testing.T) {
	s := &space{name: "readers", calls: append(tries, callPromote), from: held, acquires: [3]int{1, 1}, asks: 1, faults: 1, shared: true}
	readers := []string{"B calls TryAcquire", "B's acquire arrives and is answered", "A calls Promote"}
	a := s.at(t, append(readers[:3:3], "A's promotion arrives, and the reply is lost")...)
	b := s.at(t, append(readers[:3:3], "A's promotion is lost")...)
	if a.broken != nil || b.broken != nil || a.key == b.key {
		t.Errorf("%v, %v: both are %s", a.broken, b.broken, a.key)
	}
}
