package holder

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/explore/steady"
)

// A space says what two callers, the network and the clock may do.
type space struct {
	name      string
	from      []string // the steps to the first state
	calls     []string // what the callers may call
	acquires  [3]int   // how many times each caller may begin to take the lock
	asks      int      // how many times it may call Check and what comes after it
	faults    int      // requests and replies that go astray
	late      int      // requests that may be under way after their sender has left
	steps     int
	deep      int // steps in the second tier
	atLeast   time.Duration
	most      time.Duration // HoldAtMost
	wait      time.Duration
	observed  bool
	own       bool // the callers give a Token, and take no lock after a release
	unasked   bool // the callers ask for Context later
	noRenewal bool
	shared    bool
	batch     bool // the callers have one Locker, and a name each
	askers    int  // callers that only ask the holder, which looks for questions
	visits    atomic.Int64
	known     sync.Map     // one node for each key
	met       atomic.Int64 // nodes whose key was known
}

func (s *space) options(who string) (all []padlock.Option) {
	add := func(is bool, o padlock.Option) {
		if is {
			all = append(all, o)
		}
	}
	add(s.atLeast > 0, padlock.HoldAtLeast(s.atLeast))
	add(s.most > 0, padlock.HoldAtMost(s.most))
	add(s.wait > 0, padlock.Wait(s.wait))
	add(s.noRenewal, padlock.NoRenewal())
	add(s.shared, padlock.Shared())
	add(s.own, padlock.Token(ownToken(who)))
	return all
}

func ownToken(who string) string { return "the-token-of-" + who }

// The calls of a caller.
const (
	callAcquire = "acquire"
	callTry     = "try"
	callCancel  = "cancel"
	callClose   = "close"
	callCheck   = "Check"
	callExtend  = "Extend"
	callPromote = "Promote"
	callDemote  = "Demote"
	callExport  = "Export"
	callAsk     = "Ask"
)

// A world is one run of the system: some Lockers, one caller each, on one server.
type world struct {
	*theStore
	space   *space
	callers []*caller
	faults  int
	fence   map[string]uint64 // the highest one of each name that a caller got
	broken  error
}

func newWorld(s *space) *world {
	w := &world{space: s, fence: map[string]uint64{}, theStore: &theStore{start: time.Now(), facts: map[string]*facts{}, tokens: map[string]int{}, askers: map[string]uint64{}}}
	for _, name := range append(tasks, fast.AskName(tasks[0])) {
		w.names = append(w.names, &named{name: name})
	}
	for i := range s.callers() {
		c := &caller{w: w, who: i, name: string(rune('A' + i)), job: tasks[0]}
		c.clock = &clock{Clock: driver.SystemClock(), timers: map[*timer]bool{}}
		options := []padlock.LockerOption{padlock.WithClock(c.clock), padlock.KeepStoreOpen(), padlock.TTL(ttl)}
		if s.observed {
			c.events = &events{n: map[padlock.EventKind]uint64{}}
			options = append(options, padlock.Observe(c.events))
		}
		if s.batch && i > 0 {
			c.job, c.clock, c.locker, c.face = tasks[i], w.callers[0].clock, w.callers[0].locker, w.callers[0].face
		} else {
			c.locker = padlock.New(s.client(&client{w.theStore, i, s.batch}), options...)
			c.face = faceOf(c.locker)
		}
		c.acquired, c.released, c.asked, c.closed, c.answers = make(chan acquired, 1), make(chan error, 1), make(chan error, 1), make(chan error, 1), make(chan question, 1)
		w.callers = append(w.callers, c)
	}
	return w
}

// rest waits until nothing moves, and judges.
func (w *world) rest() {
	synctest.Wait()
	w.dropLate()
	for _, c := range w.callers {
		w.breaks(cmp.Or(c.panicked, c.collect()))
		if c.face.isResting() && c.call == "" {
			for _, f := range w.facts {
				if f.who == c.who {
					f.log = nil
				}
			}
		}
	}
	synctest.Wait() // a caller that has the lock now may have begun to look for questions
	w.breaks(w.judge())
	w.cutOff = nil
	w.leaveRest()
}

// callers returns how many callers there are.
func (s *space) callers() int { return max(2, 1+s.askers) }

// client returns the store of a Locker, with what the space needs.
func (s *space) client(c *client) driver.Store {
	switch {
	case s.batch:
		return batchClient{c}
	case s.askers > 0:
		return askClient{c}
	}
	return c
}

// all reports whether done is true of each caller.
func (w *world) all(done func(*caller) bool) bool {
	return !slices.ContainsFunc(w.callers, func(c *caller) bool { return !done(c) })
}

// leaveRest ends a rest. The explorer has read without a lock what the goroutines write from here on. The
// race detector learns from the locks that this is over.
func (w *world) leaveRest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, c := range w.callers {
		if i > 0 && w.space.batch { // the same Locker
			break
		}
		mu := steady.Pointer[sync.Mutex](field(c.face.locker, "mu"))
		mu.Lock()
		defer mu.Unlock()
	}
}

// dropLate loses the requests whose senders have left, if there are too many of them.
func (w *world) dropLate() {
	for _, r := range w.sorted() {
		if r.left && !r.kept {
			if r.kept = w.lates() < w.space.late; !r.kept {
				w.remove(r)
			}
		}
	}
}

func (w *world) breaks(err error) {
	if w.broken == nil && err != nil {
		w.broken = err
	}
}

// at is the time since the bubble began.
func (s *theStore) at() time.Duration { return time.Since(s.start) }

// passTo lets the time of the bubble pass.
func (s *theStore) passTo(at time.Duration) { <-time.After(at - s.at()) }

var errForever = errors.New("all goes well from here on, and a call never returns")

// end lets everything go well, until no call is under way, and closes the Lockers.
func (w *world) end() {
	if !w.finish(func(c *caller) bool { return c.call == "" && c.lock == nil && c.face.open() == 0 }) {
		return
	}
	began := map[*caller]bool{}
	for _, c := range w.callers {
		if began[c] = !c.closing; began[c] {
			c.close()
		}
	}
	if !w.finish(func(c *caller) bool { return len(c.closed) > 0 }) {
		return
	}
	for _, c := range w.callers {
		if err := <-c.closed; err != nil && began[c] {
			w.breaks(fmt.Errorf("Close of %s returns %w", c.name, err))
		}
	}
}

// finish lets everything go well until all callers are done, and reports whether they ever are.
func (w *world) finish(done func(*caller) bool) bool {
	for range 100 {
		w.rest()
		if w.all(done) {
			return true
		}
		if w.moveOn() {
			continue
		}
		e, ok := w.next()
		if !ok {
			break
		}
		w.leaveRest()
		w.passTo(e.at)
	}
	w.breaks(errForever)
	return false
}

// moveOn makes a step that goes well, or reports that there is none.
func (w *world) moveOn() bool {
	for _, r := range w.sorted() {
		switch {
		case r.left:
			w.remove(r)
		case r.applied:
			w.perform(r, comesBack, func() {})
		case r.op == opWait:
			if w.named(r.name).Excludes(r.token, r.acquire.Shared, w.now()) {
				continue
			}
			w.perform(r, wakes, func() {})
		default:
			w.perform(r, answered, func() {})
		}
		return true
	}
	for _, c := range w.callers {
		if c.call == "" && c.lock != nil {
			c.release()
			return true
		}
	}
	return false
}
