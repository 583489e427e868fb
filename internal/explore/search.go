// Package explore visits every state that a small system can reach, breadth first, until nothing new
// is left or a bound is met. So the first broken promise that it finds has the shortest way there.
// docs/internals/every-order.md says what was explored with it.
package explore

import (
	"context"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
)

// An Edge leads from one state to another.
type Edge[S any] struct {
	Label  string // as a person reads it: "A acquires; the reply is lost"
	To     S
	Broken error // the promise that this step broke, or nil
}

// A Result says what a search has visited.
type Result struct {
	States      int // different ones, the first among them
	Transitions int // edges, those that lead to a known state among them
	Depth       int // steps to the farthest state
	Complete    bool
	Broken      error    // the first broken promise, or nil
	Trace       []string // the labels of the shortest way to it
}

// Search visits the states that can be reached from start. The key of a state says everything that
// decides what can happen from it; two states with one key are the same. next returns the edges from a
// state, and must not change it; several goroutines call it at once, with different states. Search ends
// when nothing new is left (Complete), at the first broken promise, with ctx, or after so many states.
//
// A part of a level is expanded in parallel and joined in order, so two runs visit the same.
func Search[S any](ctx context.Context, start S, key func(S) string, next func(S) []Edge[S], most int) Result {
	s := search[S]{ctx: ctx, key: key, next: next, known: make(map[sum]bool), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	s.add(s.sum(start), -1, "")
	level := []entry[S]{{0, start}}
	for ; len(level) > 0; s.Depth++ {
		var after []entry[S]
		for part := range slices.Chunk(level, 1<<13) { // a wide level has too many edges for the memory
			more, ok := s.join(part, s.expand(part), most)
			if !ok {
				return s.Result
			}
			after = append(after, more...)
		}
		level = after
	}
	s.Depth--
	s.Complete = true
	return s.Result
}

type search[S any] struct {
	Result
	ctx    context.Context
	key    func(S) string
	next   func(S) []Edge[S]
	known  map[sum]bool
	seeds  [2]maphash.Seed
	visits []visit
}

// A sum stands for a key. With ten million states two keys have one sum with a probability of 1e-25.
type sum [2]uint64

// A visit is how a state was reached first.
type visit struct {
	parent int
	label  string
}

type entry[S any] struct {
	visit int
	state S
}

// An expansion has the edges from one state, and the sum of the state at the end of each.
type expansion[S any] struct {
	edges []Edge[S]
	sums  []sum
}

func (s *search[S]) sum(state S) sum {
	k := s.key(state)
	return sum{maphash.String(s.seeds[0], k), maphash.String(s.seeds[1], k)}
}

func (s *search[S]) add(k sum, parent int, label string) {
	s.known[k] = true
	s.visits = append(s.visits, visit{parent, label})
	s.States++
}

// expand returns the edges from each state of a part of a level, unless ctx ends.
func (s *search[S]) expand(level []entry[S]) []expansion[S] {
	all := make([]expansion[S], len(level))
	work := make(chan int, len(level))
	for i := range level {
		work <- i
	}
	close(work)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range work {
				if s.ctx.Err() != nil {
					return
				}
				all[i].edges = s.next(level[i].state)
				all[i].sums = make([]sum, len(all[i].edges))
				for j, e := range all[i].edges {
					all[i].sums[j] = s.sum(e.To)
				}
			}
		})
	}
	group.Wait()
	return all
}

// join returns the states of the next level that a part leads to. ok is false if the search ends here.
func (s *search[S]) join(level []entry[S], all []expansion[S], most int) (after []entry[S], ok bool) {
	if s.ctx.Err() != nil {
		return nil, false
	}
	for i, x := range all {
		for j, e := range x.edges {
			s.Transitions++
			if e.Broken != nil {
				s.Broken, s.Trace = e.Broken, s.trace(level[i].visit, e.Label)
				return nil, false
			}
			if s.known[x.sums[j]] {
				continue
			}
			if s.States == most {
				return nil, false
			}
			s.add(x.sums[j], level[i].visit, e.Label)
			after = append(after, entry[S]{len(s.visits) - 1, e.To})
		}
		all[i] = expansion[S]{} // lets the memory go
	}
	return after, true
}

func (s *search[S]) trace(at int, last string) []string {
	labels := []string{last}
	for ; s.visits[at].parent >= 0; at = s.visits[at].parent {
		labels = append(labels, s.visits[at].label)
	}
	slices.Reverse(labels)
	return labels
}
