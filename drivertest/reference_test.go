package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// This file and the other reference files are a simple store that tests the suite: each of its
// rules can be broken by a flag. The store is right if bug is empty.

// bug is a rule that a store breaks, in the words of a bug report.
type bug string

// world is the server.
type world struct {
	mu     sync.Mutex
	bug    bug
	g      driver.Guarantees
	names  map[string]*entry
	now    func() time.Time
	passes bool
	trip   time.Duration        // the time for one way, to the server or back
	stall  func() time.Duration // how much longer one way takes on a busy machine
	silent chan struct{}        // closed when the server answers again; nil while the server answers
	opens  []*ref
	full   bool
	most   int                          // waiters that a name may have; 0: any number
	starts int                          // with no data
	linger time.Duration                // how long a reservation that nobody claims stays in the way; 0: MaxReservation
	recs   map[string]map[string]string // the texts of records, by name and ID
	leak   chan struct{}                // ends goroutines that were left behind
	floor  uint64                       // of all names' fences, for a bug
	foil   atomic.Int64                 // for bugs that change with every call
	skew   atomic.Int64                 // by which the wall clock differs from the clients' clock
}

// entry is one name.
type entry struct {
	name     string
	holds    []*hold
	fence    uint64
	cooling  time.Time
	intent   string
	intends  time.Time // when the intent lapses
	queue    []*waiting
	refused  int                       // Acquires that were refused
	refusals map[string]uint64         // the fence of the name when each token was refused, for bugs
	lostOne  *driver.Request           // a refused request whose reply was lost, for a bug
	uses     map[*ref]int              // how often each client has taken the name
	past     map[string]driver.Outcome // how the hold of each token ended
	changed  chan struct{}             // closed at each change
}

type hold struct {
	owner        *ref // nil: a program other than padlock
	token        string
	shared       bool
	asked        bool // the granted request asked for a shared hold
	reserved     bool
	fence        uint64
	since, until time.Time
	holder       driver.Holder
}

// waiting is where a waiter stands in the queue.
type waiting struct {
	token  string
	shared bool
}

// ref is a store opened on a world.
type ref struct {
	w      *world
	done   chan struct{} // closed by Close
	once   sync.Once
	waits  sync.WaitGroup
	bound  context.Context
	unbind context.CancelCauseFunc
	lose   atomic.Bool // lose the next reply
}

var refGuarantees = driver.Guarantees{
	Store: "reference", SurvivesRestart: driver.PromiseYes, SafeClockJump: driver.PromiseYes, SafeEviction: driver.PromiseYes, Fence: driver.FenceDurable,
	SharedFence: driver.PromiseYes, Lease: true, Shared: true, Promotion: driver.PromotionAtomic, FIFO: true, CoolDown: true,
}

var errFull = fmt.Errorf("%w: no memory is left", driver.ErrUnavailable)

func newWorld(b bug) *world {
	return &world{bug: b, g: refGuarantees, names: make(map[string]*entry), now: time.Now, leak: make(chan struct{})}
}

func (w *world) open(context.Context) (driver.Store, error) {
	s := &ref{w: w, done: make(chan struct{})}
	s.bound, s.unbind = context.WithCancelCause(context.Background())
	w.mu.Lock()
	w.opens = append(w.opens, s)
	w.mu.Unlock()
	if w.bug == closeLeaks {
		go func() { <-w.leak }()
	}
	return s, nil
}

func (s *ref) is(b bug) bool { return s.w.bug == b }

// ask carries out a request in the world, under its mutex, and takes as long as the way there and
// back.
func (s *ref) ask(ctx context.Context, f func() error) error {
	if err := s.travel(ctx); err != nil {
		return err
	}
	if err := s.w.silence(); err != nil {
		return err
	}
	s.w.mu.Lock()
	err := f()
	s.w.mu.Unlock()
	if s.lose.Swap(false) {
		return s.lost()
	}
	if late := s.travel(ctx); late != nil && err == nil {
		if s.is(cancelHidesGrant) {
			return late
		}
		return errors.Join(driver.ErrUncertain, late)
	}
	return err
}

// lost returns the error of a request whose reply was lost.
func (s *ref) lost() error {
	switch s.w.bug {
	case errorBecomesHeld:
		return &driver.HeldError{Waiters: -1}
	case errorBecomesLoss:
		return driver.ErrLost
	case errorBecomesUnavailable:
		return driver.ErrUnavailable
	}
	return driver.ErrUncertain
}

// travel takes as long as one way.
func (s *ref) travel(ctx context.Context) error {
	select {
	case <-s.done:
		return driver.ErrClosed
	default:
	}
	if s.is(contextIgnored) {
		return nil
	}
	trip := s.w.trip
	if s.w.stall != nil {
		trip += s.w.stall()
	}
	if trip == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(trip)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) entry(original string) *entry {
	name := mangle(w.bug, original)
	e := w.names[name]
	if e == nil {
		e = &entry{name: original, past: make(map[string]driver.Outcome), uses: make(map[*ref]int), changed: make(chan struct{})}
		w.names[name] = e
	}
	return e
}

func (e *entry) signal() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// live returns the hold of token if its lease has not run out.
func (w *world) live(e *entry, token string) *hold {
	for _, h := range e.holds {
		if h.token == token && w.lives(h) {
			return h
		}
	}
	return nil
}

func (w *world) lives(h *hold) bool {
	now := w.now()
	if w.bug == leaseEndsEarly {
		now = now.Add(20 * time.Millisecond)
	}
	return h.until.IsZero() || h.until.After(now)
}

// drop forgets a hold, and remembers what became of it.
func (w *world) drop(e *entry, token string, o driver.Outcome) {
	kept := e.holds[:0:0]
	for _, h := range e.holds {
		if h.token != token {
			kept = append(kept, h)
		}
	}
	if e.holds = kept; o != driver.OutcomeGone {
		e.past[token] = o
	}
	if len(e.holds) == 0 && w.bug == fenceForgotten {
		e.fence = 0
	}
}

// bury removes lapsed holds, because the name goes to somebody else, and remembers that.
func (w *world) bury(e *entry) {
	for _, h := range e.holds {
		if !w.lives(h) {
			if w.drop(e, h.token, driver.OutcomeTaken); w.bug == fenceLapses {
				e.fence = 0
			}
		}
	}
}

func (w *world) mint(e *entry, above uint64) uint64 {
	if w.bug == fenceAboveIgnored {
		above = 0
	}
	if w.g.Fence == driver.FenceNone {
		return 0
	}
	micros := uint64(w.now().UnixMicro())
	if w.bug == fenceCounts {
		micros = 1
	}
	if w.bug == fenceTooBig {
		micros += driver.MaxFence
	}
	f := max(e.fence+1, above+1, micros)
	switch {
	case w.bug == fenceAboveOnce && above > 0:
		return f
	case w.bug == fenceAboveForAll:
		f = max(f, w.floor+1)
		w.floor = max(w.floor, above)
	case w.bug == fencesStandStill:
		f = min(f, driver.MaxFence-1)
	}
	e.fence = f
	return f
}

// usedUp reports whether no fence is left.
func (w *world) usedUp(e *entry) bool {
	return e.fence >= driver.MaxFence-1 && w.bug != fencesStandStill && w.bug != fenceTooBig
}

// newGeneration reports whether r needs a new fence.
func (w *world) newGeneration(e *entry, r *driver.Request) bool {
	if w.bug == readersMint {
		return true
	}
	return !r.Shared || r.FenceAbove >= e.fence && w.bug != joinersIgnoreAbove || !slices.ContainsFunc(e.holds, func(h *hold) bool { return h.shared && w.lives(h) })
}

// Acquire implements driver.Store.
func (s *ref) Acquire(ctx context.Context, r driver.Request) (g driver.Grant, err error) {
	r.Detached = r.Detached && !s.is(boundDetaches)
	if err := s.validate(&r); err != nil {
		return g, err
	}
	if s.is(sharedIsExclusive) || s.is(sharedPretended) || r.Detached && s.is(detachedReaderAlone) {
		r.Shared = false
	}
	if r.Shared && !s.w.g.Shared || r.Replaces.Text() != "" && s.w.g.Bound != driver.BoundToNothing && !s.is(boundSwaps) || r.Replaces.Text() != "" && s.is(swapUnsupported) {
		return g, errors.ErrUnsupported
	}
	if r.Detached && s.is(detachedUnsupported) {
		return g, errors.ErrUnsupported
	}
	err = s.ask(ctx, func() error { g, err = s.acquire(&r); return err })
	if errors.Is(err, driver.ErrHeld) && s.is(heldAndUncertain) {
		err = errors.Join(err, driver.ErrUncertain)
	}
	if err != nil {
		return driver.Grant{}, s.blab(err, r.Token.Text())
	}
	return g, nil
}

func (s *ref) acquire(r *driver.Request) (driver.Grant, error) {
	w := s.w
	e := w.entry(r.Name)
	s.misjudge(e)
	for _, h := range e.holds {
		if h.token == r.Token.Text() && s.is(sameFenceAgain) {
			h.until = later(h.until, w.now().Add(r.TTL))
		}
	}
	if h := w.live(e, r.Token.Text()); h != nil {
		return s.repeat(e, h, r)
	}
	if r.Replaces.Text() != "" {
		return s.replace(e, r)
	}
	if s.is(spentEndsHolds) {
		e.holds = slices.DeleteFunc(e.holds, func(h *hold) bool {
			return slices.ContainsFunc(r.Spent, func(t driver.Token) bool { return t.Text() == h.token })
		})
	}
	free, err := w.free(e, r) || s.misses(e), w.heldError(e, r)
	if s.is(actsOnOldNews) {
		w.mu.Unlock()
		<-time.After(time.Microsecond)
		w.mu.Lock()
	}
	if !free || s.refusalLasts(e, r.Token.Text()) || len(e.queue) > 0 && !s.is(overtakes) {
		s.noteRefusal(e, r)
		return driver.Grant{}, err
	}
	if w.full && s.is(fullGrantsInSecret) {
		s.add(e, r, r.TTL)
	}
	if w.full && s.is(fullUnnamed) {
		return driver.Grant{}, driver.ErrUnavailable
	}
	if w.full {
		return driver.Grant{}, errFull
	}
	if w.newGeneration(e, r) && w.usedUp(e) {
		return driver.Grant{}, driver.ErrFencesUsedUp
	}
	return s.grant(s.add(e, r, r.TTL)), nil
}

// free reports whether r may come in, as far as holds go.
func (w *world) free(e *entry, r *driver.Request) bool {
	now := w.now()
	if w.bug == fenceCools && !e.cooling.IsZero() && !e.cooling.After(now) {
		e.fence, e.cooling = 0, time.Time{}
	}
	if e.cooling.After(now) && !(w.bug == coolDownKnowsItsToken && e.past[r.Token.Text()] == driver.OutcomeReleased) {
		return false
	}
	if r.Shared && w.intending(e) != "" && w.bug != intentLetsIn {
		return false
	}
	for _, h := range e.holds {
		together := h.shared && r.Shared || h.token == r.Token.Text()
		together = together || w.bug == writersIgnoreReaders && h.shared || w.bug == readersIgnoreWriters && r.Shared
		if w.lives(h) && !together {
			return false
		}
	}
	return true
}

// add makes a hold.
func (s *ref) add(e *entry, r *driver.Request, ttl time.Duration) *hold {
	w := s.w
	w.bury(e)
	if s.is(grantsHalf) {
		ttl /= 2
	}
	h := &hold{owner: s, token: r.Token.Text(), shared: r.Shared, asked: r.Shared, since: w.now(), holder: r.Holder, fence: e.fence}
	if w.g.Lease || s.is(leaseAfterAll) {
		h.until = h.since.Add(ttl)
	}
	if s.is(clientsSetEnds) {
		h.until = h.until.Add(-time.Duration(w.skew.Load()))
	}
	if w.newGeneration(e, r) && !(s.is(firstReaderIsStale) && r.Shared && e.fence > 0 && r.FenceAbove < e.fence) {
		h.fence = w.mint(e, r.FenceAbove)
	}
	if f, refused := e.refusals[r.Token.Text()]; refused && s.is(refusedKeepsFence) {
		h.fence = f
	}
	if r.Shared && s.is(readersFenceOld) {
		h.fence--
	}
	for _, other := range e.holds {
		if s.is(readersShareALease) && other.shared {
			other.until = later(h.until, other.until)
		}
		if s.is(readerShortensOthers) && other.shared {
			other.until = h.until
		}
	}
	e.holds = append(e.holds, h)
	e.uses[s]++
	return h
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *ref) grant(h *hold) driver.Grant {
	g := driver.Grant{Fence: h.fence, Shared: h.shared || s.is(exclusiveLooksShared)}
	if s.is(modeOfTheFirstGrant) {
		g.Shared = h.asked
	}
	if s.w.g.Lease {
		g.TTL = h.until.Sub(s.w.now())
		if s.is(clientsSetEnds) {
			g.TTL += time.Duration(s.w.skew.Load()) // as it seems to the client
		}
		if longest := s.w.g.MaxTTL; longest > 0 {
			g.TTL = min(g.TTL, longest)
		}
	}
	if s.w.g.Bound == driver.BoundToConnection || s.is(boundUnasked) {
		g.Bound = s.bound
	}
	if s.w.g.InProcess && !s.is(fromForgotten) {
		g.From = driver.SystemClock().Now()
	}
	return g
}

func (s *ref) replace(e *entry, r *driver.Request) (driver.Grant, error) {
	h := s.w.live(e, r.Replaces.Text())
	if s.is(replacesAnybody) && len(e.holds) > 0 && e.past[r.Replaces.Text()] == 0 {
		h = e.holds[0]
	}
	if h == nil {
		if s.is(replacesFreshly) && s.w.free(e, r) {
			return s.grant(s.add(e, r, r.TTL)), nil
		}
		return driver.Grant{}, driver.ErrLost
	}
	if s.is(replacesAndKeeps) {
		old := *h
		e.holds = append(e.holds, &old)
	}
	e.past[h.token] = driver.OutcomeTaken
	h.owner, h.token, h.since = s, r.Token.Text(), s.w.now()
	if !s.is(swapKeepsHolder) {
		h.holder = r.Holder
	}
	switch {
	case s.is(swapForgetsAbove):
		h.fence = s.w.mint(e, 0)
	case !s.is(replacesKeepsFence):
		h.fence = s.w.mint(e, r.FenceAbove)
	}
	if s.is(replacesConverts) {
		h.shared = r.Shared
	}
	if s.w.g.Lease {
		h.until = later(h.until, s.w.now().Add(r.TTL))
	}
	return s.grant(h), nil
}
