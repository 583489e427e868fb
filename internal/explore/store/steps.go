package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/padlock-go/padlock/internal/explore"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A Verb is a kind of request.
type Verb uint8

// The requests. The token of Replace replaces another one, and Break has no token. AcquireAbove and
// ShareAbove want a fence above a given one.
const (
	Acquire Verb = iota
	Share
	AcquireAbove
	ShareAbove
	Replace
	Extend
	Promote
	Demote
	Release
	ReleaseKeep
	Break
	Raise
	Join
	JoinShared
	verbs
)

// words says what a token does, and what its request is called.
var words = [verbs][2]string{
	{"acquires", "acquire"}, {"acquires shared", "shared acquire"},
	{"acquires above a higher fence", "acquire above a higher fence"}, {"acquires shared above the last fence", "shared acquire above the last fence"},
	{"replaces", "replacement of"}, {"extends", "extend"}, {"promotes", "promotion"}, {"demotes", "demotion"},
	{"releases", "release"}, {"releases with a cool-down", "release with a cool-down"},
	{"somebody breaks the lock", "a break"}, {"raises its fence", "raise of the fence"}, {"waits", ""}, {"waits shared", ""},
}

// How a request travels.
const (
	now     = iota // it arrives at once; the reply may arrive or be lost, which the store cannot know
	sent           // it is under way
	arrives        // it arrives, late
	copied         // it arrives, and arrives again later
	lost
	ways
)

// labels has the text of each step, made once.
var labels = func() (all [ways][verbs][maxTokens][maxTokens]string) {
	for v := range verbs {
		for i := range maxTokens {
			for j := range maxTokens {
				does, called := names[i]+" "+words[v][0], names[i]+"'s "+words[v][1]
				switch v {
				case Break:
					does, called = words[v][0], words[v][1]
				case Replace:
					does, called = does+" "+names[j], called+" "+names[j]
				}
				all[now][v][i][j] = does
				all[sent][v][i][j] = does + "; the request is under way"
				all[arrives][v][i][j] = called + " arrives"
				all[copied][v][i][j] = called + " arrives, and a copy stays under way"
				all[lost][v][i][j] = called + " is lost"
			}
		}
	}
	return all
}()

// The other steps.
const (
	before = "one tick before the next end"
	atEnd  = "the next end"
	after  = "one tick after the next end"
	hands  = "a waiter looks"
	looked = "somebody looks at the name"
)

// legal reports whether a caller may send a request.
func (w *world) legal(f flight) bool {
	a := &w.l.tokens[f.tok]
	waits := slices.ContainsFunc(w.queue, func(p place) bool { return p.tok == f.tok })
	switch f.verb {
	case Release, ReleaseKeep:
		return true
	case Break:
		return f.tok == 0 && w.l.top > 0
	case Replace:
		return !a.closed && f.tok != f.other && !w.l.tokens[f.other].closed
	case Extend, Promote, Demote, Raise:
		return !a.closed && a.has != nothing
	case Join, JoinShared:
		return !a.closed && !w.l.live(int(f.tok)) && !waits
	}
	return !a.closed
}

// fill sets the argument of a request that is sent now.
func (w *world) fill(f *flight) {
	switch f.verb {
	case AcquireAbove:
		f.arg = w.l.top + 3
	case ShareAbove, Break:
		f.arg = w.l.top
	case Raise:
		f.arg = w.l.tokens[f.tok].fence + 1
	}
}

// send notes that the caller has sent a request.
func (w *world) send(f flight) {
	if f.verb == Release || f.verb == ReleaseKeep {
		w.l.tokens[f.tok].closed = true
	}
}

// A step is one thing that can happen. do changes the world, and returns the promise that it breaks.
type step struct {
	label   string
	do      func(w *world, s *step) error
	f       flight
	at      int  // where f is in the list of those under way
	arrives bool // f arrives
	to      decide.Time
}

// requests calls f for each request that somebody may send.
func (w *world) requests(list []Verb, each func(f flight)) {
	for _, v := range list {
		for i := range w.sp.Tokens {
			for j := range w.sp.Tokens {
				f := flight{verb: v, tok: int8(i), other: int8(j)}
				if v != Replace && j > 0 || !w.legal(f) {
					continue
				}
				w.fill(&f)
				each(f)
			}
		}
	}
}

// steps returns everything that can happen.
func (w *world) steps() []step {
	all := make([]step, 0, 48)
	label := func(way int, f flight) string { return labels[way][f.verb][f.tok][f.other] }
	w.requests(w.sp.Verbs, func(f flight) {
		all = append(all, step{label: label(now, f), f: f, arrives: true, do: func(w *world, s *step) error { w.send(s.f); return w.arrive(s.f) }})
	})
	if len(w.flights) < w.sp.Flights {
		w.requests(w.sp.Late, func(f flight) {
			if !slices.ContainsFunc(w.flights, f.same) {
				all = append(all, step{label: label(sent, f), f: f, do: func(w *world, s *step) error { w.send(s.f); w.flights = append(w.flights, s.f); return nil }})
			}
		})
	}
	for i, f := range w.flights {
		all = append(all,
			step{label: label(arrives, f), f: f, at: i, arrives: true, do: func(w *world, s *step) error { w.land(s); return w.arrive(s.f) }},
			step{label: label(copied, f), f: f, arrives: true, do: func(w *world, s *step) error { return w.arrive(s.f) }},
			step{label: label(lost, f), at: i, do: func(w *world, s *step) error { w.land(s); return nil }})
	}
	if len(w.queue) > 0 {
		all = append(all, step{label: hands, do: func(w *world, _ *step) error { return w.handOver() }})
	}
	return w.moves(all)
}

// land takes a request from those under way.
func (w *world) land(s *step) { w.flights = slices.Delete(w.flights, s.at, s.at+1) }

func (f flight) same(g flight) bool { return f.verb == g.verb && f.tok == g.tok && f.other == g.other }

// moves adds the steps of the clock.
func (w *world) moves(all []step) []step {
	var next decide.Time
	for _, t := range w.times(make([]*decide.Time, 0, 32)) {
		if *t > w.l.now && (next == 0 || *t < next) {
			next = *t
		}
	}
	if next == 0 {
		return all
	}
	tick := w.sp.tick()
	for _, s := range [...]step{{label: atEnd, to: next}, {label: after, to: next + tick}, {label: before, to: next - tick}} {
		if s.to > w.l.now {
			s.do = func(w *world, s *step) error { w.l.now = s.to; w.s.Trim(w.present()); w.l.tidy(); return nil }
			all = append(all, s)
		}
	}
	return all
}

// take makes a step on a copy of a world. If the decision panics, that is its broken promise.
func (w *world) take(s *step, c *world) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	w.copyTo(c)
	return s.do(c, s)
}

// equals reports whether nothing has changed, as after most refusals.
func (w *world) equals(o *world) bool {
	return w.l == o.l && w.s.Fence == o.s.Fence && w.s.Cool == o.s.Cool && w.s.Intent == o.s.Intent &&
		slices.Equal(w.s.Holds, o.s.Holds) && slices.Equal(w.s.Taken, o.s.Taken) && slices.Equal(w.s.Spent, o.s.Spent) &&
		slices.Equal(w.flights, o.flights) && slices.Equal(w.queue, o.queue)
}

// look checks a state in which nothing happens.
func (w *world) look() error { return errors.Join(w.compare(), w.rest()) }

// start returns the name that nobody ever used.
func (sp *Space) start() string {
	w := &world{sp: sp, l: ledger{now: base, wish: -1, wall: sp.wall(), top: sp.First}, s: decide.State{Fence: sp.First}}
	text, _ := w.text()
	return text
}

// next returns the edges from a state.
func (sp *Space) next(text string) []explore.Edge[string] {
	w := worldOf(sp, text)
	if err := w.look(); err != nil {
		return []explore.Edge[string]{{Label: looked, To: text, Broken: err}}
	}
	all := w.steps()
	edges := make([]explore.Edge[string], len(all))
	var c world
	for i := range all {
		s, e := &all[i], &edges[i]
		if e.Label, e.To, e.Broken = s.label, text, w.take(s, &c); e.Broken == nil && !c.equals(w) {
			e.To, _ = c.text()
		}
	}
	return edges
}

// Search visits the states of a space, at most most of them.
func (sp *Space) Search(ctx context.Context, most int) explore.Result {
	return explore.Search(ctx, sp.start(), func(s string) string { return s }, sp.next, most)
}

var errNoStep = errors.New("this step cannot happen here")

// Story tells what happened on the way to a state, as a person reads it. Search gives the tokens other
// names in each state; labels has each step with one name for a token, and lines has the answers, too.
func (sp *Space) Story(trace []string) (lines, labels []string, err error) {
	return sp.replay(trace, func(label string, _ [maxTokens]int8) string { return label })
}

// Replay takes the labels that Story has returned, and returns the promise that the last step breaks.
func (sp *Space) Replay(labels []string) (lines []string, err error) {
	lines, _, err = sp.replay(labels, renamed)
	return lines, err
}

func (sp *Space) replay(trace []string, as func(label string, is [maxTokens]int8) string) (lines, labels []string, err error) {
	w := worldOf(sp, sp.start())
	w.tell, w.is = true, [maxTokens]int8{0, 1, 2, 3}
	for n, label := range trace {
		all := append(w.steps(), step{label: looked, do: func(w *world, _ *step) error { return w.look() }})
		i := slices.IndexFunc(all, func(s step) bool { return as(s.label, w.is) == label })
		if i < 0 {
			return lines, labels, fmt.Errorf("step %d, %q: %w", n+1, label, errNoStep)
		}
		var c world
		err := w.take(&all[i], &c)
		line := renamed(all[i].label, w.is)
		labels = append(labels, line)
		if c.answer != "" {
			line += ": " + c.answer
		}
		if lines = append(lines, line); err != nil {
			return lines, labels, err
		}
		text, order := c.text()
		var then [maxTokens]int8
		for i, from := range order {
			then[i] = w.is[from]
		}
		w = worldOf(sp, text)
		w.tell, w.is = true, then
	}
	return lines, labels, w.look()
}

// renamed gives the tokens of a label the names of a story.
func renamed(label string, is [maxTokens]int8) string {
	b := []byte(label)
	for i, c := range b {
		if c >= 'A' && c < 'A'+maxTokens {
			b[i] = names[is[c-'A']][0]
		}
	}
	return string(b)
}
