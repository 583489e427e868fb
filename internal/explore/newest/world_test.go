package newest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/explore/steady"
	"github.com/padlock-go/padlock/newest"
	"github.com/padlock-go/padlock/storekit/decide"
)

const (
	ttl      = 10 * time.Second
	turn     = 1500 * time.Millisecond // how long a turn lasts if all goes in order
	keepLast = 50 * time.Second        // as in newest.go
	long     = keepLast + 10*time.Second
	less     = keepLast - 5*time.Second
	idle     = ttl + 2*driver.MaxSilence // nobody has a turn for longer, if all goes well
)

// A world is one run.
type world struct {
	theStore
	callers []*caller
	plan    []deviation
	seen    map[string]int // how often each step was next
	options []deviation    // those that were possible after the last one of the plan
	trace   []string

	changed time.Duration // when something last happened that may keep the callers waiting
	grants  int           // of the lock itself
	newest  uint64        // the greatest number that had a turn
	fence   uint64        // of the last turn
	closing bool
	over    bool
	broken  error
}

// A deviation is something that happens instead of the step that would be next in order.
type deviation struct{ before, what string }

func (d deviation) String() string { return "\n" + d.what + ", before " + d.before }

// A step is something that can happen next.
type step struct {
	label string
	do    func()
}

// A caller is one process.
type caller struct {
	w       *world
	name    string
	locker  *padlock.Locker
	ctx     context.Context
	cancel  context.CancelFunc
	results chan result
	number  uint64
	marked  int           // which grant its share of "waiting" was
	got     int           // which grant the lock was; 0 if it has not got it
	waits   time.Duration // when it tried to get the lock first
	ended   time.Duration // when it gave up its share of "waiting"

	arrived, returned, released, cancelled, dead, paused, cut, closed bool

	lock   *padlock.Lock
	asked  <-chan struct{}
	leaves time.Duration // when its turn ends
	had    bool          // it had a turn
	err    error

	astray  bool          // a request of it went astray, or it was stopped
	blind   time.Duration // for how long it was stopped
	until   time.Duration // when it goes on
	stopped int           // how often it was stopped
	wrote   int           // and how often before it wrote its record
	gates   []gate
	touched bool // something has changed for it
}

type result struct {
	lock  *padlock.Lock
	err   error
	asked <-chan struct{}
	what  string
}

// A clock is that of the bubble, without chance.
type clock struct{ driver.Clock }

func (c clock) AfterFunc(d time.Duration, f func()) func() bool {
	_, d = steady.Timer(d)
	return c.Clock.AfterFunc(d, f)
}

func newWorld(callers int, plan []deviation) *world {
	w := &world{plan: plan, seen: map[string]int{}}
	w.theStore = theStore{start: time.Now().Add(-time.Second), names: map[string]*decide.State{}, owners: map[string]*caller{}, happened: make(chan struct{}, 1)}
	for i := range callers {
		c := &caller{w: w, name: string(rune('A' + i)), results: make(chan result, 1)}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		c.locker = padlock.New(client{c}, padlock.WithClock(clock{driver.SystemClock()}), padlock.KeepStoreOpen(), padlock.TTL(ttl))
		steady.Fix(c.locker)
		w.callers = append(w.callers, c)
	}
	return w
}

// run makes the run. Meanwhile the explorer has mu, but for when it waits.
func (w *world) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 0; ; i++ {
		w.rest()
		next, ok := w.next()
		if i == 5000 {
			w.breaks(errForever)
		}
		if w.broken != nil || !ok {
			break
		}
		w.take(next)
	}
	w.end()
}

// take makes the next step, or what the plan says instead.
func (w *world) take(next step) {
	w.seen[next.label]++
	d := deviation{before: next.label}
	if n := w.seen[next.label]; n > 1 {
		d.before = fmt.Sprintf("%s #%d", next.label, n)
	}
	others, planned := w.others(next), w.plan
	for _, s := range others {
		d.what = s.label
		switch {
		case len(planned) == 0:
			w.options = append(w.options, d)
		case planned[0] == d:
			next, w.plan, w.changed = s, planned[1:], w.at()
		}
	}
	w.trace = append(w.trace, next.label)
	next.do()
}

func (w *world) breaks(err error) {
	if w.broken == nil && err != nil {
		w.broken = err
	}
}

// rest waits until nothing moves, and judges.
func (w *world) rest() {
	w.mu.Unlock()
	synctest.Wait()
	w.mu.Lock()
	select {
	case <-w.happened:
	default:
	}
	slices.SortStableFunc(w.fresh, func(a, b *request) int { return strings.Compare(a.String(), b.String()) })
	w.requests, w.fresh = append(w.requests, w.fresh...), nil
	for _, c := range w.callers {
		slices.SortStableFunc(c.gates, func(a, b gate) int { return strings.Compare(a.String(), b.String()) })
		select {
		case r := <-c.results:
			w.breaks(c.collect(r))
		default:
		}
	}
	w.breaks(w.judge())
}

// next returns what happens next in order.
func (w *world) next() (step, bool) {
	for _, c := range w.callers {
		switch stopped := c.paused || c.cut; {
		case stopped && c.until <= w.at():
			return step{c.name + " goes on", c.goOn}, true
		case !stopped && !c.dead && len(c.gates) > 0:
			return step{c.gates[0].String() + " goes on", c.openGate}, true
		}
	}
	for _, r := range w.requests {
		if w.canMove(r) {
			return step{r.String() + " arrives", func() { w.arrive(r, nil) }}, true
		}
	}
	if c := w.late(); c != nil {
		return step{c.name + " arrives", c.arrive}, true
	}
	open := false
	for _, c := range w.callers {
		if c.lock != nil && !c.dead && !c.paused && (c.leaves <= w.at() || c.isOver()) {
			return step{c.name + " ends its turn", c.release}, true
		}
		open = open || !c.dead && (!c.returned || c.err == nil && !c.released)
	}
	switch {
	case !open && !w.closing:
		return step{"the Lockers close", w.close}, true
	case w.closing && len(w.requests) == 0 && !slices.ContainsFunc(w.callers, func(c *caller) bool { return !c.dead && !c.closed }):
		return step{}, false
	}
	w.breaks(w.judgeAtRest())
	return step{"time passes", w.pass}, w.broken == nil
}

// late returns the caller that arrives next, or nil.
func (w *world) late() *caller {
	i := slices.IndexFunc(w.callers, func(c *caller) bool { return !c.arrived })
	if i < 0 {
		return nil
	}
	return w.callers[i]
}

// pass lets time pass to whatever comes next: a timer of newest or a Locker, or what the world waits for.
func (w *world) pass() {
	next := w.at() + time.Hour
	sooner := func(at time.Duration) {
		if at > w.at() {
			next = min(next, at)
		}
	}
	for _, c := range w.callers {
		sooner(c.until)
		sooner(c.leaves)
	}
	for _, r := range w.requests {
		sooner(r.due)
		if r.op == opWait {
			for _, h := range w.named(r.name).Holds {
				sooner(h.Until.Sub(0) - time.Hour)
			}
		}
	}
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-w.happened:
	case <-time.After(next - w.at()):
	}
}

// others returns what may happen instead of the next step.
func (w *world) others(next step) (all []step) {
	add := func(label string, do func()) {
		if label != next.label {
			all = append(all, step{label, do})
		}
	}
	var first [8]bool
	oldest := true
	for _, r := range w.requests {
		i := slices.Index(w.callers, r.caller)
		if first[i] || !w.canMove(r) {
			continue
		}
		first[i] = true
		add(r.String()+" arrives", func() { w.arrive(r, nil) })
		if oldest && r.String()+" arrives" == next.label {
			w.mislead(r, add)
		}
		oldest = false
	}
	if c := w.late(); c != nil {
		add(c.name+" arrives", c.arrive)
	}
	for _, c := range w.callers {
		if c.hasTurn() && !c.paused {
			add(c.name+" ends its turn", c.release)
			if next.label == c.name+" ends its turn" {
				add(c.name+" does not leave", func() { c.leaves += long })
			}
		}
		if c.touched && c.arrived && !c.dead && !c.paused && !c.cut && !w.closing {
			c.touched = false
			c.stops(add)
		}
	}
	return all
}

// mislead adds what may become of a request.
func (w *world) mislead(r *request, add func(string, func())) {
	fault := func(how string, do func()) {
		add(r.String()+" "+how, func() { r.astray = true; do() })
	}
	switch {
	case r.result != nil:
		return
	case r.left:
		fault("is lost", func() { w.remove(r) })
		return
	}
	fault("is lost", func() { w.answer(r, answer{err: errNoReply}) })
	if r.isRead() {
		return
	}
	fault("arrives, and the reply is lost", func() { w.arrive(r, errNoReply) })
	for _, late := range []time.Duration{30 * time.Millisecond, 3 * time.Second} {
		fault(fmt.Sprintf("arrives %v late, and its sender hears that the connection broke", late), func() {
			r.reply <- answer{err: errNoReply}
			r.left, r.due, w.changed = true, w.at()+late, w.at()+late
		})
	}
}

// stops adds how c may stop.
func (c *caller) stops(add func(string, func())) {
	w := c.w
	if !c.returned && !c.cancelled {
		add(c.name+" is cancelled", func() { c.cancelled = true; c.cancel() })
	}
	mine := func(r *request) bool { return r.caller == c }
	add(c.name+" is killed", func() { c.die(); w.requests = slices.DeleteFunc(w.requests, mine) })
	if slices.ContainsFunc(w.requests, func(r *request) bool { return r.caller == c && !r.isRead() }) {
		add(c.name+" is killed, and its requests arrive", c.die)
	}
	stop := func(what string, d time.Duration, flag *bool) {
		add(c.name+" is "+what, func() {
			*flag, c.astray, c.until, c.blind = true, true, w.at()+d, c.blind+d
			w.changed = c.until
			c.stopped++
		})
	}
	stop("paused for long", long, &c.paused)
	stop("paused for a little less", less, &c.paused)
	stop("cut off for long", long, &c.cut)
	if end := c.leaseEnd(); end > 0 {
		stop("paused until a lease is over", end-w.at(), &c.paused)
		stop("cut off until a lease is over", end-w.at(), &c.cut)
	}
}

// leaseEnd returns when a lease of c ends next, and a little more, or 0.
func (c *caller) leaseEnd() (end time.Duration) {
	for _, state := range c.w.names {
		for _, h := range state.Holds {
			if at := h.Until.Sub(0) - time.Hour + time.Millisecond; c.w.owners[h.Token] == c && at > c.w.at() && (end == 0 || at < end) {
				end = at
			}
		}
	}
	return end
}

func (c *caller) die() {
	c.dead, c.astray = true, true
	for _, r := range c.w.requests {
		r.left = r.left || r.caller == c
	}
}

// goOn ends a pause or cut.
func (c *caller) goOn() { c.paused, c.cut, c.touched, c.w.changed = false, false, true, c.w.at() }

// openGate lets a goroutine go on.
func (c *caller) openGate() {
	close(c.gates[0].open)
	c.gates = c.gates[1:]
}

func (c *caller) arrive() {
	c.arrived, c.w.changed = true, c.w.at()
	c.start(func() (r result) {
		if r.lock, r.err = newest.Acquire(c.ctx, c.locker, job); r.err == nil {
			r.asked = padlock.Asked(r.lock.Context())
		}
		return r
	})
}

func (c *caller) release() {
	c.leaves, c.w.changed = 0, c.w.at()
	lock := c.lock
	c.start(func() result { return result{what: "Release", err: lock.Release()} })
	c.lock = nil
}

func (w *world) close() {
	w.closing = true
	for _, c := range w.callers {
		if !c.dead {
			c.start(func() result { return result{what: "Close", err: c.locker.Close(context.Background())} })
		}
	}
}

func (c *caller) start(call func() result) {
	go func() {
		c.results <- call()
		c.w.signal()
	}()
}

// end lets the leases end, and lets the dead go.
func (w *world) end() {
	w.over = true
	for _, c := range w.callers {
		if c.dead = c.dead || w.broken != nil; c.dead {
			c.cancel()
		}
		for c.paused = false; len(c.gates) > 0; {
			c.openGate()
		}
	}
	if w.broken != nil {
		for _, r := range append(slices.Clone(w.requests), w.fresh...) {
			w.answer(r, answer{err: errDead})
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range w.callers {
		if c.dead {
			go func() { _ = c.locker.Close(ctx) }()
		}
	}
	w.mu.Unlock()
	<-time.After(2 * time.Minute)
	w.mu.Lock()
	for name, state := range w.names {
		if slices.ContainsFunc(state.Holds, func(h decide.Hold) bool { return h.Until > w.now().At }) {
			w.breaks(fmt.Errorf("two minutes later, somebody has %q", name))
		}
	}
}
