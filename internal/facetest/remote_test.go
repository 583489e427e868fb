package facetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A remote is a memstore that behaves as a server behind a bad network: a test says for each
// operation what happens to the request and to the reply.
type remote struct {
	Store      *memstore.Store // the server's end
	guarantees driver.Guarantees

	mu     sync.Mutex
	before map[string]trouble // the trouble of a request on its way
	after  map[string]trouble // the trouble of the reply to a request that was carried out
	grant  func(*driver.Grant)
	calls  []call
}

// trouble is called for the n-th request of its kind since it was set. It may take its time; an
// error is what the caller gets.
type trouble func(ctx context.Context, n int) error

type call struct {
	op, name, token string
	next            string        // token of the next holder, in a pass
	ttl             time.Duration // of an acquire and an extend
	keep            time.Duration // of a release
	shared          bool
	at              time.Time
	ctx             context.Context
}

// newRemote returns an empty server.
func newRemote() *remote { return connect(memstore.New()) }

// connect returns a way to a server of its own, which allows leases of up to a day.
func connect(s *memstore.Store) *remote {
	s = s.Open(memstore.MaxTTL(driver.MaxTTL))
	g := s.Guarantees()
	g.InProcess = false
	g.Lacks |= driver.AbilityBreak
	return &remote{Store: s, guarantees: g, before: map[string]trouble{}, after: map[string]trouble{}}
}

func (r *remote) Guarantees() driver.Guarantees { return r.guarantees }

func (r *remote) Close() error {
	return r.on(call{op: "close", ctx: context.Background()}, func(context.Context) error { return r.Store.Close() })
}

func (r *remote) Inspect(ctx context.Context, name string) (driver.State, error) {
	return r.Store.Inspect(ctx, name)
}

func (r *remote) List(ctx context.Context, prefix string) ([]driver.State, error) {
	return r.Store.List(ctx, prefix)
}

func (r *remote) Break(context.Context, string, uint64) (uint64, error) {
	return 0, errors.ErrUnsupported
}

// request makes op fail, hang or take long before the server sees it.
func (r *remote) request(op string, t trouble) { r.set(r.before, op, t) }

// reply makes the answer to op late or lost; the server has done its part.
func (r *remote) reply(op string, t trouble) { r.set(r.after, op, t) }

func (r *remote) set(m map[string]trouble, op string, t trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := -1
	m[op] = func(ctx context.Context, _ int) error {
		r.mu.Lock()
		n++
		i := n
		r.mu.Unlock()
		return t(ctx, i)
	}
}

// heal ends all trouble.
func (r *remote) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.before)
	clear(r.after)
}

// on sends c through the trouble that is set, with serve in the middle.
func (r *remote) on(c call, serve func(ctx context.Context) error) error {
	c.at = time.Now()
	r.mu.Lock()
	r.calls = append(r.calls, c)
	before, after := r.before[c.op], r.after[c.op]
	r.mu.Unlock()
	if before != nil {
		if err := before(c.ctx, 0); err != nil {
			return err
		}
	}
	if after == nil {
		return serve(c.ctx)
	}
	err := serve(context.WithoutCancel(c.ctx))
	if lost := after(c.ctx, 0); lost != nil {
		return lost
	}
	return err
}

// answer makes a grant look as if it came over a network: its TTL counts from before the request.
func (r *remote) answer(g driver.Grant) driver.Grant {
	g.From = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant != nil {
		r.grant(&g)
	}
	return g
}

func (r *remote) Acquire(ctx context.Context, q driver.Request) (g driver.Grant, err error) {
	c := call{op: "acquire", name: q.Name, token: q.Token.Text(), ttl: q.TTL, shared: q.Shared, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { g, err = r.Store.Acquire(ctx, q); return err })
	if err != nil {
		return driver.Grant{}, err
	}
	return r.answer(g), nil
}

func (r *remote) Extend(ctx context.Context, name, token string, ttl time.Duration) (g driver.Grant, err error) {
	c := call{op: "extend", name: name, token: token, ttl: ttl, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { g, err = r.Store.Extend(ctx, name, token, ttl); return err })
	if err != nil {
		return driver.Grant{}, err
	}
	return r.answer(g), nil
}

func (r *remote) Release(ctx context.Context, name, token string, keep time.Duration) (out driver.Outcome, err error) {
	c := call{op: "release", name: name, token: token, keep: keep, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { out, err = r.Store.Release(ctx, name, token, keep); return err })
	return out, err
}

func (r *remote) Wait(ctx context.Context, q driver.Request, reserve bool) (g driver.Grant, err error) {
	c := call{op: "wait", name: q.Name, token: q.Token.Text(), shared: q.Shared, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { g, err = r.Store.Wait(ctx, q, reserve); return err })
	g.From, g.TTL = 0, min(g.TTL, driver.MaxReservation) // to be claimed
	return g, err
}

func (r *remote) Convert(ctx context.Context, q driver.Request) (g driver.Grant, err error) {
	c := call{op: "convert", name: q.Name, token: q.Token.Text(), shared: q.Shared, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { g, err = r.Store.Convert(ctx, q); return err })
	if err != nil {
		return driver.Grant{}, err
	}
	return r.answer(g), nil
}

// log returns the calls of the given kinds so far, or all calls if no kind is given. It may be
// called while the lockers send requests.
func (r *remote) log(ops ...string) []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.calls), func(c call) bool { return len(ops) > 0 && !slices.Contains(ops, c.op) })
}

// bare hides the optional abilities of a store.
type bare struct{ driver.Store }

// The kinds of trouble:

func fails(err error) trouble { return func(context.Context, int) error { return err } }

// takes is a network that delays a message by d.
func takes(d time.Duration) trouble {
	return func(ctx context.Context, _ int) error { return sleep(ctx, d) }
}

// silent is a server that says nothing; the client gives up with ctx, and after driver.MaxSilence.
func silent(ctx context.Context, _ int) error {
	return errors.Join(driver.ErrUncertain, sleep(ctx, driver.MaxSilence), errors.New("i/o timeout"))
}

// deaf is a client that does not even notice the end of ctx.
func deaf(context.Context, int) error {
	<-time.After(driver.MaxSilence)
	return errors.Join(driver.ErrUncertain, errors.New("i/o timeout"))
}

// first returns trouble that affects only the first n requests.
func first(n int, t trouble) trouble {
	return func(ctx context.Context, i int) error {
		if i < n {
			return t(ctx, i)
		}
		return nil
	}
}

var errReset = errors.New("connection reset by peer")

// lost is a reply that does not come.
var lost = fails(errReset)

// sleep makes no timer for a pause of 0: two timers that are due at once in a bubble of synctest
// can crash the race detector (golang/go #78156).
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Helpers of the tests:

// newLocker returns a Locker that is closed, and must close without an error, at the end of the
// test.
func newLocker(t *testing.T, s padlock.Store, opts ...padlock.LockerOption) *padlock.Locker {
	t.Helper()
	l := padlock.New(s, opts...)
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		for _, what := range leftIn(l) {
			t.Errorf("Close left %s", what)
		}
	})
	return l
}

// acquire returns a Lock that the garbage collector leaves alone until the test ends. It would give
// up a Lock that the test does not keep, and do that outside of the bubble of a test with synctest.
func acquire(t *testing.T, l *padlock.Locker, name string, opts ...padlock.Option) *padlock.Lock {
	t.Helper()
	h := acquireToForget(t, l, name, opts...)
	t.Cleanup(func() { runtime.KeepAlive(h) })
	return h
}

// leftIn returns what a Locker that is closed still counts. A counter that nobody lowers would one day
// refuse callers, and a table that nobody clears grows for ever.
func leftIn(l *padlock.Locker) (left []string) {
	for _, name := range []string{
		"calls.running", "lines", "permitWaiters", "handover.holders", "renewer.heap", "renewer.hidden", "renewer.due", "renewer.workers",
		"cleaner.jobs", "cleaner.open", "cleaner.late", "cleaner.workers", "stats.waiting",
	} {
		v := reflect.ValueOf(l).Elem()
		for _, field := range strings.Split(name, ".") {
			v = v.FieldByName(field)
		}
		n := 0
		if v.CanInt() {
			n = int(v.Int())
		} else {
			n = v.Len()
		}
		if n != 0 {
			left = append(left, fmt.Sprintf("%s: %d", name, n))
		}
	}
	return left
}

func acquireToForget(t *testing.T, l *padlock.Locker, name string, opts ...padlock.Option) *padlock.Lock {
	t.Helper()
	h, err := l.Acquire(context.Background(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func release(t *testing.T, h *padlock.Lock, opts ...padlock.ReleaseOption) {
	t.Helper()
	if err := h.Release(opts...); err != nil {
		t.Error(err)
	}
}

// everyError lists the errors for which errors.Is may be true of an error of this package.
var everyError = []error{
	padlock.ErrHeld, padlock.ErrExpired, padlock.ErrLost, padlock.ErrUncertain, padlock.ErrUnavailable,
	padlock.ErrPromotionConflict, padlock.ErrInvalid, padlock.ErrClosed, padlock.ErrAlreadyHeld,
	padlock.ErrMaxHold, padlock.ErrReleased, padlock.ErrTooManyWaiters,
	context.Canceled, context.DeadlineExceeded, errors.ErrUnsupported,
}

// wantOnly checks that err is an *Error of op, and that errors.Is is true of it for want and for no
// other error of this package.
func wantOnly(t *testing.T, err error, op padlock.Op, want ...error) {
	t.Helper()
	var e *padlock.Error
	if !errors.As(err, &e) || e.Op != op {
		t.Fatalf("got %v (%T), want an *Error of %q", err, err, op)
	}
	for _, target := range everyError {
		if is := errors.Is(err, target); is != slices.Contains(want, target) {
			t.Errorf("errors.Is(%q, %q) = %v", err, target, is)
		}
	}
	for _, target := range want {
		if !errors.Is(err, target) {
			t.Errorf("errors.Is(%q, %q) is false", err, target)
		}
	}
}

// free reports whether nobody holds name, cools it down or waits for it.
func free(t *testing.T, s *remote, name string) bool {
	t.Helper()
	state, err := s.Store.Inspect(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return len(state.Holds) == 0 && state.Waiters == 0
}

// margins returns how much earlier than its lease a lock ends, by the rule of design.md.
func margins(ttl time.Duration) time.Duration {
	return ttl/100 + min(2*time.Millisecond, ttl/20) + min(50*time.Millisecond, ttl/10)
}

// storedName returns the name under which stores keep a lock.
func storedName(k *padlock.Lock) string {
	if k.Slot() >= 0 {
		return fast.SlotName(k.Name(), k.Slot())
	}
	return k.Name()
}
