package holder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// A space says what two callers, the network and the clock may do.
type space struct {
	name      string
	from      []string // the steps to the first state
	calls     []string // what the callers may call
	acquires  [2]int   // how many times each caller may begin to take the lock
	asks      int      // how many times it may call Check and what comes after it
	faults    int      // requests and replies that go astray
	late      int      // requests that may be under way after their sender has left
	steps     int
	deep      int // steps in the second tier
	atLeast   time.Duration
	most      time.Duration // HoldAtMost
	wait      time.Duration
	observed  bool
	unasked   bool // nobody asks for Context while the lock is held
	noRenewal bool
	shared    bool
	visits    atomic.Int64
}

func (s *space) options() (all []padlock.Option) {
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
	return all
}

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
)

// A world is one run of the system: two Lockers, one caller each, on one server.
type world struct {
	*theStore
	space   *space
	callers []*caller
	faults  int
	fence   uint64 // the highest one that a caller got
	broken  error
}

// A caller calls the methods of one Locker, one at a time.
type caller struct {
	w          *world
	who        int
	name       string
	locker     *padlock.Locker
	clock      *clock
	face       face
	acquires   int
	asks       int
	call       string // the call under way, or ""
	once       bool   // that is a TryAcquire
	begun      time.Duration
	cancel     context.CancelFunc
	cancelled  bool
	lock       *leased
	token      string // of lock
	ctx        context.Context
	over       bool          // the lock ended before its Release
	overAtCall bool          // and before the Check or Extend under way
	most       time.Duration // when HoldAtMost ends the lock, if it does
	keptUntil  time.Duration // when the time of HoldAtLeast is over
	events     *events
	acquired   chan acquired
	released   chan error
	asked      chan error // the result of Check or Extend

	panicked error

	got, refused, lost, releases uint64
	closing                      bool
	closed                       chan error
}

type acquired struct {
	lock *padlock.Lock
	err  error
}

const name = "job"

func newWorld(s *space) *world {
	w := &world{space: s, theStore: &theStore{start: time.Now(), facts: map[string]*facts{}, tokens: map[string]int{}}}
	for i := range 2 {
		c := &caller{w: w, who: i, name: string(rune('A' + i))}
		c.clock = &clock{Clock: driver.SystemClock(), timers: map[*timer]bool{}}
		options := []padlock.LockerOption{padlock.WithClock(c.clock), padlock.KeepStoreOpen(), padlock.TTL(ttl)}
		if s.observed {
			c.events = &events{n: map[padlock.EventKind]uint64{}}
			options = append(options, padlock.Observe(c.events))
		}
		c.locker = padlock.New(&client{w.theStore, i}, options...)
		c.face = faceOf(c.locker)
		c.acquired, c.released, c.asked, c.closed = make(chan acquired, 1), make(chan error, 1), make(chan error, 1), make(chan error, 1)
		w.callers = append(w.callers, c)
	}
	return w
}

// A step is something that can happen next.
type step struct {
	label string
	fault bool
	do    func()
}

// steps returns what can happen next. The labels differ.
func (w *world) steps() []step {
	var all []step
	for _, c := range w.callers {
		all = append(all, c.steps()...)
	}
	for _, r := range w.sorted() {
		all = append(all, w.stepsOf(r)...)
	}
	all = append(all, w.clockSteps()...)
	all = slices.DeleteFunc(all, func(s step) bool { return s.fault && w.faults == w.space.faults })
	return slices.CompactFunc(all, func(a, b step) bool { return a.label == b.label }) // equal requests
}

func (c *caller) steps() (all []step) {
	can := func(call string) bool { return slices.Contains(c.w.space.calls, call) }
	add := func(what string, do func()) { all = append(all, step{label: c.name + " " + what, do: do}) }
	switch {
	case c.call == "" && c.lock != nil:
		add("calls Release", c.release)
		for _, call := range []string{callCheck, callExtend, callPromote, callDemote} {
			if can(call) && c.asks < c.w.space.asks {
				add("calls "+call, func() { c.ask(call) })
			}
		}
	case c.call == "" && c.acquires < c.w.space.acquires[c.who] && !c.closing:
		if can(callAcquire) {
			add("calls Acquire", func() { c.take(false) })
		}
		if can(callTry) {
			add("calls TryAcquire", func() { c.take(true) })
		}
	case c.call == callPromote && !c.cancelled && can(callCancel):
		add("gives up the promotion", func() { c.cancelled = true; c.cancel() })
	case c.call == callAcquire && !c.cancelled && can(callCancel):
		add("gives up", func() { c.cancelled = true; c.cancel() })
	}
	if can(callClose) && !c.closing && c.acquires > 0 {
		add("closes its Locker", c.close)
	}
	return all
}

func (c *caller) take(once bool) {
	ctx, cancel := context.WithCancel(context.Background())
	c.call, c.once, c.cancel, c.cancelled, c.begun = callAcquire, once, cancel, false, c.w.at()
	c.acquires++
	c.start(func() {
		method := c.locker.Acquire
		if once {
			method = c.locker.TryAcquire
		}
		lock, err := method(ctx, name, c.w.space.options()...)
		c.acquired <- acquired{lock, err}
	})
}

func (c *caller) release() {
	c.call = opRelease
	c.start(func() { c.released <- c.lock.Release() })
}

// ask calls a method of the lock.
func (c *caller) ask(call string) {
	ctx, cancel := context.WithCancel(context.Background())
	c.call, c.overAtCall, c.cancel, c.cancelled = call, c.over, cancel, false
	delete(c.w.facts[c.token].asked, askedBy[call])
	c.asks++
	c.start(func() {
		switch call {
		case callCheck:
			c.asked <- c.lock.Check(ctx)
		case callExtend:
			c.asked <- c.lock.Extend(ctx, 2*ttl)
		case callPromote:
			c.asked <- c.lock.Promote(ctx)
		case callDemote:
			c.asked <- c.lock.Demote(ctx)
		}
	})
}

func (c *caller) close() {
	c.closing = true
	c.start(func() { c.closed <- c.locker.Close(context.Background()) })
}

// start begins a call of c.
func (c *caller) start(call func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				c.w.mu.Lock()
				defer c.w.mu.Unlock()
				c.panicked = fmt.Errorf("%s's call panics: %v", c.name, p)
			}
		}()
		call()
	}()
}

// collect takes the results of the calls that have returned, and judges them.
func (c *caller) collect() error {
	select {
	case a := <-c.acquired:
		c.call = ""
		c.cancel()
		if a.err == nil {
			c.holds(a.lock)
		} else {
			c.refused++
		}
		return c.judgeAcquire(c.lock, a.err)
	case err := <-c.released:
		c.call = ""
		c.releases++
		broken := c.judgeRelease(err)
		c.lock = nil
		return broken
	case err := <-c.asked:
		broken := c.judgeAsk(err)
		c.call = ""
		c.cancel()
		return broken
	default:
		return nil
	}
}

// holds notes that c has got a lock.
func (c *caller) holds(lock *padlock.Lock) {
	s := c.w.space
	c.lock, c.over, c.most, c.ctx = leasedOf(lock), false, 0, nil
	c.token = token(c.lock.hold)
	c.got++
	if !s.unasked {
		c.ctx = lock.Context()
	}
	if s.most > 0 {
		c.most = c.w.at() + s.most
	}
	if s.atLeast > 0 {
		c.keptUntil = c.w.facts[c.token].confirmed + s.atLeast
	}
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
	w.breaks(w.judge())
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

// sorted returns the requests under way in an order that does not depend on goroutines.
func (w *world) sorted() []*request {
	all := slices.Clone(w.requests)
	slices.SortStableFunc(all, func(a, b *request) int { return strings.Compare(w.label(a), w.label(b)) })
	return all
}

// label names a request as a story does.
func (w *world) label(r *request) string {
	what := r.op
	if r.cleanUp {
		what = "clean-up"
	}
	s := w.callers[r.who].name + "'s " + what
	if n := w.tokens[r.token]; n > 1 {
		s += " with token " + strconv.Itoa(n)
	}
	switch {
	case r.left:
		s += " of before"
	case r.applied:
		s += " that has arrived"
	}
	return s
}

func (w *world) stepsOf(r *request) (all []step) {
	add := func(fault bool, hows ...string) {
		for _, how := range hows {
			all = append(all, step{w.label(r) + " " + how, fault, func() { w.perform(r, how) }})
		}
	}
	switch {
	case r.left:
		add(false, arrives)
	case r.applied:
		add(false, comesBack)
	case r.op == opWait:
		if !w.state.Excludes(r.token, r.acquire.Shared, w.now()) {
			add(false, wakes)
			if r.reserve {
				add(false, handsOver)
			}
		}
		add(true, lost)
	default:
		add(false, answered)
		add(true, replyLost, lost, refused)
		if w.lates() < w.space.late {
			add(true, delayed)
		}
		if r.op == opAcquire || r.op == opRenew {
			add(true, slowReply)
		}
	}
	return all
}

func (w *world) lates() (n int) {
	for _, r := range w.requests {
		if r.kept {
			n++
		}
	}
	return n
}

// An edge is a time at which something changes by itself.
type edge struct {
	at   time.Duration
	what string
	both bool // the time just before it counts, too
}

// timersOf says what a method of the Locker waits for.
var timersOf = map[string]string{
	"tryStore": "next try", "releaseAtStore": "next try to release", "repeatRelease": "next clean-up",
	"askAgain": "second clean-up", "startTimer": "time to wait", "awaitPromotion": "next try to be promoted", "awaitLateDemotion": "promotion", "convert": "next try to convert", "waitAsHead": "next look", "askStore": "next look",
}

// far is the time of what never happens.
const far = driver.Instant(1<<63 - 1)

// beside is how much before an edge the clock may stop.
const beside = time.Millisecond

// next returns the next edge.
func (w *world) next() (edge, bool) {
	var all []edge
	now := w.at()
	add := func(at time.Duration, what string, both bool) {
		if at > now {
			all = append(all, edge{at, what, both})
		}
	}
	for _, c := range w.callers {
		for _, t := range c.clock.running() {
			add(now+t.at.Sub(c.clock.Now()), c.name+"'s "+timersOf[t.who], false)
		}
		if at := c.face.due(); at > 0 && at < far {
			add(now+at.Sub(c.clock.Now()), "the next look at "+c.name+"'s lock", true)
		}
		if c.lock != nil {
			add(w.facts[c.token].usable(), "the end of "+c.name+"'s lock", true)
		}
	}
	for _, r := range w.requests {
		if !r.left && r.deadline > 0 {
			add(r.deadline, "the end of the patience for "+w.label(r), false)
		}
	}
	for _, h := range w.state.Holds {
		add(until(h.Until), "the end of a lease in the store", true)
	}
	add(until(w.state.Cool), "the end of the cool-down", true)
	if len(all) == 0 {
		return edge{}, false
	}
	first := slices.MinFunc(all, func(a, b edge) int { return int(a.at - b.at) })
	var whats []string
	for _, e := range all {
		if e.at == first.at {
			whats = append(whats, e.what)
			first.both = first.both || e.both
		}
	}
	slices.Sort(whats)
	return edge{first.at, strings.Join(slices.Compact(whats), " and "), first.both}, true
}

func (w *world) clockSteps() []step {
	e, ok := w.next()
	if !ok {
		return nil
	}
	to := func(at time.Duration) func() { return func() { time.Sleep(at - w.at()) } }
	all := []step{{label: "time passes to " + e.what, do: to(e.at)}}
	if e.both && e.at-beside > w.at() {
		all = append(all, step{label: "time passes to just before " + e.what, do: to(e.at - beside)})
	}
	return all
}

// take makes the step with that label.
func (w *world) take(label string) bool {
	for _, s := range w.steps() {
		if s.label == label {
			if s.fault {
				w.faults++
			}
			s.do()
			w.rest()
			return true
		}
	}
	return false
}

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
		if done(w.callers[0]) && done(w.callers[1]) {
			return true
		}
		if w.moveOn() {
			continue
		}
		e, ok := w.next()
		if !ok {
			break
		}
		time.Sleep(e.at - w.at())
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
			w.perform(r, comesBack)
		case r.op == opWait:
			if w.state.Excludes(r.token, r.acquire.Shared, w.now()) {
				continue
			}
			w.perform(r, wakes)
		default:
			w.perform(r, answered)
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

// key returns the state as text; see docs/internals/every-order.md. If both callers may do the same,
// it does not say which of them is which.
func (w *world) key() string {
	key := w.keyOf(w.callers)
	if w.space.acquires[0] != w.space.acquires[1] {
		return key
	}
	return min(key, w.keyOf([]*caller{w.callers[1], w.callers[0]}))
}

func (w *world) keyOf(callers []*caller) string {
	k := &key{now: w.callers[0].clock.Now(), tokens: map[string]int{}}
	k.fences = append(k.fences, w.state.Fence, w.fence)
	for _, h := range w.state.Holds {
		k.fences = append(k.fences, h.Fence)
	}
	for _, r := range w.requests {
		k.fences = append(k.fences, r.result.grant.Fence)
	}
	for _, c := range w.callers {
		if c.lock != nil {
			k.fences = append(k.fences, c.lock.Fence())
		}
	}
	slices.Sort(k.fences)
	k.fences = slices.Compact(k.fences)
	k.add(fmt.Sprint(w.faults, k.fence(w.fence), k.fence(w.state.Fence)))
	for _, c := range callers {
		c.key(k)
	}
	w.storeKey(k)
	return k.String()
}

// key writes the state of c, what is under way for it, and the facts that the judge knows.
func (c *caller) key(k *key) {
	w := c.w
	for _, r := range w.sorted() {
		if r.who != c.who {
			continue
		}
		k.add(fmt.Sprint("r", r.op, k.token(r.token), r.cleanUp, r.applied, r.left, r.sent-w.at(), max(r.deadline-w.at(), 0), r.ttl, r.keep))
		if r.applied {
			k.add(fmt.Sprint(class(r.result.err), r.result.outcome, k.fence(r.result.grant.Fence), r.result.grant.TTL))
		}
	}
	k.add(fmt.Sprint(c.acquires, c.asks, max(c.keptUntil-w.at(), 0), c.call, c.once, c.cancelled, c.closing, len(c.closed)))
	if c.lock != nil {
		f := w.facts[c.token]
		k.add(holdKey(k, c.lock.hold))
		k.add(fmt.Sprint(c.over, max(f.usable()-w.at(), 0), max(c.most-w.at(), 0), f.tried > 0, f.trying, f.lossTold, f.released, f.replied))
		switch {
		case c.over:
		case f.trying:
			k.add(fmt.Sprint("trying", f.tried-w.at()))
		case f.tried > 0:
			k.add(fmt.Sprint("failed", f.failed-w.at()))
		default:
			k.add(fmt.Sprint("planned", max(f.planned-w.at(), 0)))
		}
		if op := askedBy[c.call]; op != "" {
			k.add(fmt.Sprint("asked", f.asked[op] == nil, c.overAtCall))
		}
	}
	c.face.key(k)
	for _, t := range c.clock.running() {
		k.add(fmt.Sprint(t.at.Sub(k.now), t.who))
	}
	k.add(fmt.Sprint(c.clock.isArmed(c.face.due())))
	var logged []string
	for t, f := range w.facts {
		if f.who == c.who && len(f.log) > 0 {
			logged = append(logged, t)
		}
	}
	slices.SortFunc(logged, func(a, b string) int { return w.tokens[a] - w.tokens[b] })
	for _, t := range logged {
		f := w.facts[t]
		k.add(fmt.Sprint(k.token(t), string(f.log), f.released, f.late, f.releasing))
		if c.face.open() > 0 {
			k.add(fmt.Sprint(w.at() - f.first))
		}
	}
}

// storeKey writes the state of the name. What a token had that nobody sends any more says nothing.
func (w *world) storeKey(k *key) {
	now := w.now()
	for _, h := range w.state.Holds {
		left := max(h.Until-now.At, 0)
		k.add(fmt.Sprint("h", k.token(h.Token), h.Shared, h.Reserved, k.fence(h.Fence), left, w.facts[h.Token].late))
	}
	k.add(fmt.Sprint("cool", max(w.state.Cool-now.At, 0)))
	var old []string
	for _, t := range w.state.Taken {
		if k.tokens[t] > 0 {
			old = append(old, "taken"+k.token(t))
		}
	}
	for _, p := range w.state.Spent {
		if k.tokens[p.Token] > 0 && p.Until > now.At {
			old = append(old, fmt.Sprint("spent", k.token(p.Token), p.Until-now.At))
		}
	}
	slices.Sort(old)
	k.add(strings.Join(old, ","))
}
