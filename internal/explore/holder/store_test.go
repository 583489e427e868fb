package holder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/storekit/decide"
)

// theStore has one name or two. Its requests stop until the explorer moves them.
type theStore struct {
	start    time.Time
	mu       sync.Mutex
	names    []*named
	requests []*request // under way
	facts    map[string]*facts
	tokens   map[string]int // the number of a token among those of its Locker

	// What each Locker heard while it held the lock: how many renewals and extensions the server
	// has confirmed, how many renewals had a result, and how many of these had no reply.
	confirmed, renewals, failed [3]uint64

	asks   [3]asks           // of each caller
	cutOff []*request        // the renewals of several locks that were cancelled since the last rest
	askers map[string]uint64 // the fence in the question of a token
}

// A named is a name and its state.
type named struct {
	name string
	decide.State
}

// each returns the parts of r, or r.
func (r *request) each() []*request {
	if len(r.parts) > 0 {
		return r.parts
	}
	return []*request{r}
}

// named returns the state of a name.
func (s *theStore) named(name string) *named {
	return s.names[slices.IndexFunc(s.names, func(n *named) bool { return n.name == name })]
}

// A request is under way from the call of its client until the reply, or until nobody waits for one
// and nothing arrives any more.
type request struct {
	who      int
	op       string
	name     string
	token    string
	parts    []*request // of a renewal of several locks
	seen     uint64     // the fence that a Break names
	acquire  driver.Request
	reserve  bool          // a wait that may end with a reservation
	ttl      time.Duration // of an extend
	keep     time.Duration // of a release
	cleanUp  bool          // a release that the cleaner has sent
	sent     time.Duration
	deadline time.Duration // when the client stops waiting
	applied  bool          // the server has carried it out, and the reply is under way
	left     bool          // the client does not wait any more
	kept     bool          // the request may arrive all the same
	result   answer        // if applied
	reply    chan answer
}

type answer struct {
	grant   driver.Grant
	outcome driver.Outcome
	state   driver.State
	fence   uint64 // of the holder or question that a look has found, or of a Break
	err     error
}

// The operations, as stories call them.
const (
	opAcquire = "acquire"
	opWait    = "wait"
	opRenew   = "renewal"
	opExtend  = "extension" // that of Lock.Extend
	opCheck   = "check"
	opPromote = "promotion"
	opDemote  = "demotion"
	opRelease = "release"
)

// What becomes of a request, as stories tell it.
const (
	answered  = "arrives and is answered"
	replyLost = "arrives, and the reply is lost"
	slowReply = "arrives, and the reply is delayed"
	lost      = "is lost"
	delayed   = "is delayed, and its sender hears that the connection broke"
	refused   = "is not sent, because the store cannot be reached"
	arrives   = "arrives late"
	comesBack = "is answered by the delayed reply"
	wakes     = "ends, because the name may be free"
	handsOver = "ends with a reservation"
)

var (
	errNoReply = fmt.Errorf("%w: the connection broke", driver.ErrUncertain)
	errRefused = fmt.Errorf("%w: the connection was refused", driver.ErrUnavailable)
)

// now is the time by the clock of the server, which begins at one hour.
func (s *theStore) now() decide.Now {
	return decide.Now{At: decide.Time((time.Hour + s.at()).Microseconds())}
}

// until says when a time of the server comes, in the time since start.
func until(t decide.Time) time.Duration { return t.Sub(0) - time.Hour }

// perform does with r what how says, and then calls meanwhile. The explorer calls it while
// everything rests.
func (s *theStore) perform(r *request, how string, meanwhile func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer meanwhile()
	switch how {
	case answered, replyLost, slowReply, arrives, wakes, handsOver:
		s.apply(r, how)
	}
	switch how {
	case answered, comesBack, wakes, handsOver:
		s.answer(r, r.result)
	case replyLost, lost:
		s.answer(r, answer{err: errNoReply})
	case refused:
		s.answer(r, answer{err: errRefused})
	case delayed:
		s.answer(r, answer{err: errNoReply})
		r.left, r.kept = true, true
		s.requests = append(s.requests, r)
	case arrives:
		s.remove(r)
	}
}

func (s *theStore) remove(r *request) {
	s.requests = slices.DeleteFunc(s.requests, func(o *request) bool { return o == r })
}

// apply carries r out.
func (s *theStore) apply(r *request, how string) {
	r.applied = true
	for _, part := range r.parts {
		s.apply(part, how)
	}
	if len(r.parts) > 0 {
		return
	}
	now, f, state := s.now(), s.facts[r.token], s.named(r.name)
	state.Trim(now)
	if r.isAsk() {
		s.applyAsk(r, state, now)
		return
	}
	var h *decide.Hold
	var err error
	repeats := state.Live(r.token, now) != nil
	switch r.op {
	case opAcquire:
		h, err = state.Acquire(&r.acquire, now)
		f.late = f.late || r.left && err == nil
	case opRenew, opExtend, opCheck:
		h, err = state.Extend(r.token, r.ttl, now)
		repeats = true
	case opPromote, opDemote:
		h, _, err = state.Convert(&r.acquire, now)
	case opWait:
		if how == handsOver {
			h, err = state.Reserve(&r.acquire, now)
		}
	case opRelease:
		r.result.outcome = state.Release(r.token, r.keep, now)
		f.released = f.released || r.result.outcome == driver.OutcomeReleased
		f.late = false
	}
	r.result.err = err
	if err == nil && h != nil {
		r.result.grant = driver.Grant{Fence: h.Fence, TTL: h.Until.Sub(now.At), Shared: repeats && h.Shared}
	}
}

// answer gives the client of r its answer.
func (s *theStore) answer(r *request, a answer) {
	s.remove(r)
	s.note(r, &a)
	r.reply <- a
}

// note notes what the client of r hears.
func (s *theStore) note(r *request, a *answer) {
	for _, part := range r.parts {
		if a.err != nil {
			part.result = *a
		}
		s.note(part, &part.result)
	}
	if r.isAsk() {
		s.asks[r.who].note(r, a, s.at())
	}
	if len(r.parts) > 0 || r.isAsk() {
		return
	}
	f := s.facts[r.token]
	f.note(r, a, s.at())
	if f.over || errors.Is(a.err, context.Canceled) || f.leaving && a.err != nil { // a release does not wait for it
		return
	}
	if (r.op == opRenew || r.op == opExtend) && a.err == nil {
		s.confirmed[r.who]++
	}
	if r.op == opRenew {
		s.renewals[r.who]++
		if a.err != nil && !isLoss(a.err) {
			s.failed[r.who]++
		}
	}
}

// A client is the store of one Locker.
type client struct {
	*theStore
	who      int
	together bool // several callers have this Locker, with a name each
}

// A batchClient renews several locks with one request.
type batchClient struct{ *client }

func (c batchClient) ExtendBatch(ctx context.Context, all []fast.Extension) ([]fast.Extended, error) {
	r := &request{op: opRenew}
	for _, e := range all {
		r.parts = append(r.parts, &request{op: opRenew, name: e.Name, token: e.Token.Text(), ttl: e.TTL})
	}
	if len(all) > 0 {
		r.name, r.token = all[0].Name, r.parts[0].token
	}
	a, results := c.ask(ctx, r), make([]fast.Extended, len(all))
	for i, part := range r.parts {
		results[i] = fast.Extended{Grant: part.result.grant, Err: part.result.err}
		if a.err != nil {
			results[i] = fast.Extended{Err: a.err}
		}
	}
	return results, nil
}

var guarantees = driver.Guarantees{
	Store: "explored", Lease: true, Fence: driver.FenceSession, SharedFence: driver.PromiseYes, Shared: true,
	Promotion: driver.PromotionAtomic, CoolDown: true,
}

func (c *client) Guarantees() driver.Guarantees { return guarantees }
func (c *client) Close() error                  { return nil }

func (c *client) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	a := c.ask(ctx, &request{op: opAcquire, name: r.Name, token: r.Token.Text(), acquire: r})
	return a.grant, a.err
}

func (c *client) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	a := c.ask(ctx, &request{op: opWait, name: r.Name, token: r.Token.Text(), acquire: r, reserve: reserve})
	return a.grant, a.err
}

func (c *client) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	op := opPromote
	if r.Shared {
		op = opDemote
	}
	a := c.ask(ctx, &request{op: op, name: r.Name, token: r.Token.Text(), acquire: r})
	return a.grant, a.err
}

func (c *client) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	op := opRenew
	if _, renews := ctx.Deadline(); ttl == 0 {
		op = opCheck
	} else if !renews {
		op = opExtend
	}
	a := c.ask(ctx, &request{op: op, name: name, token: token, ttl: ttl})
	return a.grant, a.err
}

func (c *client) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	_, cleanUp := ctx.Deadline()
	a := c.ask(ctx, &request{op: opRelease, name: name, token: token, keep: keep, cleanUp: cleanUp})
	return a.outcome, a.err
}

// ask sends r and waits for the answer. Only a wait may take longer than MaxSilence.
func (c *client) ask(ctx context.Context, r *request) answer {
	if err := ctx.Err(); err != nil {
		return answer{err: err}
	}
	patience := ctx
	if r.op != opWait {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, driver.MaxSilence)
		defer cancel()
	}
	r.reply = make(chan answer, 1)
	for _, one := range append(r.parts, r) {
		if one.who = c.who; c.together {
			one.who = slices.Index(tasks, one.name)
		}
	}
	c.send(patience, r)
	select {
	case a := <-r.reply:
		r.reply <- a
	case <-patience.Done():
	}
	c.mu.Lock() // until the explorer has done all that this step does
	defer c.mu.Unlock()
	select {
	case a := <-r.reply:
		return a
	default:
		return answer{err: c.leave(r, ctx)}
	}
}

func (s *theStore) send(ctx context.Context, r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end, ok := ctx.Deadline(); ok {
		r.deadline = end.Sub(s.start)
	}
	for _, part := range r.each() {
		s.begin(part)
	}
	r.sent = s.at()
	s.requests = append(s.requests, r)
}

// begin notes that r is sent now.
func (s *theStore) begin(r *request) {
	r.sent = s.at()
	switch {
	case r.isAsk():
		s.asks[r.who].noteSent(s, r)
		return
	case s.facts[r.token] == nil:
		s.tokens[r.token] = 1
		for _, f := range s.facts {
			if f.who == r.who {
				s.tokens[r.token]++
			}
		}
		s.facts[r.token] = &facts{who: r.who, first: r.sent, asked: map[string]error{}}
	}
	s.facts[r.token].noteSent(r)
}

// leave ends a request whose client waits no longer. It may arrive later, all the same.
func (s *theStore) leave(r *request, ctx context.Context) error {
	if len(r.parts) > 0 && errors.Is(ctx.Err(), context.Canceled) {
		s.cutOff = append(s.cutOff, r)
	}
	s.note(r, &answer{err: cmp.Or(ctx.Err(), errNoReply)})
	if r.left = true; r.applied || r.op == opWait || r.op == opLook {
		s.remove(r)
	}
	if r.op == opWait {
		if r.reserve && s.named(r.name).Live(r.token, s.now()) != nil {
			s.named(r.name).Release(r.token, 0, s.now())
		}
		return ctx.Err()
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w; %w", driver.ErrUncertain, ctx.Err())
	}
	return errNoReply
}
