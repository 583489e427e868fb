package newest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/storekit/decide"
)

// theStore has the state of each name. Its requests stop until the explorer moves them.
type theStore struct {
	start    time.Time
	mu       sync.Mutex
	names    map[string]*decide.State
	owners   map[string]*caller // of tokens
	requests []*request         // under way, the oldest first
	fresh    []*request         // sent since the last rest
	happened chan struct{}      // has room for one
}

// A request is under way from the call of its client until the reply, or until it arrives or is lost
// after its client has left.
type request struct {
	*caller
	op     string // as stories call it
	name   string
	shared bool
	token  string
	sent   time.Duration
	do     func(s *decide.State, now decide.Now) answer
	left   bool          // nobody waits for the reply
	due    time.Duration // it does not arrive earlier
	result *answer       // the caller is paused, and gets this reply later
	reply  chan answer
}

type answer struct {
	grant   driver.Grant
	outcome driver.Outcome
	state   driver.State
	fence   uint64
	err     error
}

// The operations that the explorer treats in their own way.
const (
	opWait = "wait"
	opLook = "look"
)

var (
	errNoReply = fmt.Errorf("%w: the connection broke", driver.ErrUncertain)
	errDead    = fmt.Errorf("%w: the process is dead", driver.ErrUnavailable)
)

// The names of newest's locks, and what stories call them.
const job = "job"

var (
	waiting = fast.NewestName(job, "waiting")
	called  = map[string]string{job: job, fast.NewestName(job, "number"): "number", waiting: "waiting", fast.NewestName(job, "last 0"): "last 0", fast.NewestName(job, "last 1"): "last 1", fast.AskName(job): "question"}
)

func (s *theStore) at() time.Duration { return time.Since(s.start) }

// now is the time by the clock of the server, which begins at one hour.
func (s *theStore) now() decide.Now {
	return decide.Now{At: decide.Time((time.Hour + s.at()).Microseconds())}
}

// named returns the state of a name.
func (s *theStore) named(name string) *decide.State {
	state := s.names[name]
	if state == nil {
		state = new(decide.State)
		s.names[name] = state
	}
	state.Trim(s.now())
	return state
}

func (r *request) String() string {
	s := r.caller.name + "'s " + r.op + " of " + called[r.name]
	if r.left {
		s += " of before"
	}
	return s
}

// isRead reports whether r changes nothing.
func (r *request) isRead() bool { return r.op == opWait || strings.HasSuffix(r.op, opLook) }

// canMove reports whether r may arrive now.
func (s *theStore) canMove(r *request) bool {
	return !(r.result != nil && r.paused) && !r.cut && r.due <= s.at() && (r.op != opWait || !s.named(r.name).Excludes(r.token, r.shared, s.now()))
}

// arrive carries r out, and answers unless err says what the client hears instead.
func (s *theStore) arrive(r *request, err error) {
	if r.result != nil {
		s.answer(r, *r.result)
	} else if a := r.do(s.named(r.name), s.now()); err == nil {
		s.answer(r, a)
	} else {
		s.answer(r, answer{err: err})
	}
}

func (s *theStore) answer(r *request, a answer) {
	r.touched = true
	if r.paused && !r.left {
		r.result = &a
		return
	}
	s.remove(r)
	r.result = nil
	r.reply <- a
}

func (s *theStore) remove(r *request) {
	is := func(o *request) bool { return o == r }
	s.requests, s.fresh = slices.DeleteFunc(s.requests, is), slices.DeleteFunc(s.fresh, is)
}

func (s *theStore) signal() {
	select {
	case s.happened <- struct{}{}:
	default:
	}
}

// A client is the store of one Locker.
type client struct{ *caller }

func (c client) Guarantees() driver.Guarantees {
	return driver.Guarantees{Store: "explored", Lease: true, Fence: driver.FenceSession, SharedFence: driver.PromiseYes, Shared: true, CoolDown: true}
}
func (c client) Close() error { return nil }

func (c client) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	a := c.ask(ctx, &request{op: "acquire", name: r.Name, token: r.Token.Text(), do: func(s *decide.State, now decide.Now) (a answer) {
		h, err := s.Acquire(&r, now)
		if err == nil {
			c.w.owners[h.Token] = c.caller
			c.gets(r.Name, h)
		}
		return granted(h, err, now)
	}})
	return a.grant, a.err
}

func granted(h *decide.Hold, err error, now decide.Now) answer {
	if err != nil {
		return answer{err: err}
	}
	return answer{grant: driver.Grant{Fence: h.Fence, TTL: h.Until.Sub(now.At), Shared: h.Shared}}
}

func (c client) Wait(ctx context.Context, r driver.Request, _ bool) (driver.Grant, error) {
	a := c.ask(ctx, &request{op: opWait, name: r.Name, token: r.Token.Text(), shared: r.Shared, do: func(*decide.State, decide.Now) answer { return answer{} }})
	return a.grant, a.err
}

func (c client) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	a := c.ask(ctx, &request{op: "renewal", name: name, token: token, do: func(s *decide.State, now decide.Now) answer {
		h, err := s.Extend(token, ttl, now)
		return granted(h, err, now)
	}})
	return a.grant, a.err
}

func (c client) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	a := c.ask(ctx, &request{op: "release", name: name, token: token, do: func(s *decide.State, now decide.Now) answer {
		return answer{outcome: s.Release(token, keep, now)}
	}})
	return a.outcome, a.err
}

func (c client) Inspect(ctx context.Context, name string) (driver.State, error) {
	op := opLook
	if isWatch() {
		op = "second look"
	}
	a := c.ask(ctx, &request{op: op, name: name, do: func(s *decide.State, now decide.Now) answer {
		return answer{state: s.Report(name, now, time.Now())}
	}})
	return a.state, a.err
}

// isWatch reports whether the goroutine of newest that looks once a second calls. It may look at the
// same time as the one that has the lock.
func isWatch() bool {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, ".watch") || !more {
			return more
		}
	}
}

func (c client) List(context.Context, string) ([]driver.State, error) {
	return nil, errors.ErrUnsupported
}

func (c client) Break(ctx context.Context, name string, seen uint64) (uint64, error) {
	a := c.ask(ctx, &request{op: "Break", name: name, do: func(s *decide.State, now decide.Now) answer {
		fence, err := s.Break(seen, now)
		return answer{fence: fence, err: err}
	}})
	return a.fence, a.err
}

// ask sends r and waits for the answer. Only a wait may take longer than MaxSilence. A caller that is
// paused or dead neither sends nor hears anything.
func (c client) ask(ctx context.Context, r *request) answer {
	r.caller, r.reply = c.caller, make(chan answer, 1)
	c.awaitGate(r)
	if err := ctx.Err(); err != nil {
		return answer{err: err}
	}
	patience := ctx
	if r.op != opWait {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, driver.MaxSilence)
		defer cancel()
	}
	if !c.send(r) {
		return answer{err: errDead}
	}
	select {
	case a := <-r.reply:
		return a
	case <-patience.Done():
	}
	c.awaitGate(r)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if r.result != nil {
		c.w.arrive(r, nil)
	}
	select {
	case a := <-r.reply:
		return a
	default:
		return answer{err: c.leave(ctx, r)}
	}
}

// A gate stops a goroutine of a caller that is paused or dead.
type gate struct {
	*request
	open chan struct{}
}

// awaitGate waits while the caller is paused or dead. Then one goroutine after the other goes on.
func (c *caller) awaitGate(r *request) {
	c.w.mu.Lock()
	c.begins(r)
	g := gate{r, make(chan struct{})}
	stopped := c.paused || c.dead && !c.w.over
	if stopped {
		c.gates = append(c.gates, g)
	}
	c.w.mu.Unlock()
	if stopped {
		<-g.open
	}
}

func (c *caller) send(r *request) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.dead {
		return false
	}
	r.sent = c.w.at()
	c.w.fresh = append(c.w.fresh, r)
	c.w.signal()
	return true
}

// leave ends a request whose client waits no longer. It may arrive later, all the same, but for a wait
// and for what a broken connection has not carried.
func (c *caller) leave(ctx context.Context, r *request) error {
	r.left = true
	if r.op == opWait || c.cut || c.dead {
		c.w.remove(r)
	}
	c.w.signal()
	switch {
	case c.dead:
		return errDead
	case ctx.Err() == nil:
		return errNoReply
	case r.op == opWait:
		return ctx.Err()
	default:
		return fmt.Errorf("%w; %w", driver.ErrUncertain, ctx.Err())
	}
}
