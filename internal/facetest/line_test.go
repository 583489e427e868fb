package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// These tests drive a waiting turn through each transition of the table in line.go.

// slowContext is a context whose end is noticed late: a waiter that it wakes stops between its
// select and its next step.
type slowContext struct {
	context.Context
	ended, notice chan struct{}
}

func newSlowContext() *slowContext {
	return &slowContext{context.Background(), make(chan struct{}), make(chan struct{})}
}

func (c *slowContext) Done() <-chan struct{} { return c.ended }

func (c *slowContext) Err() error {
	select {
	case <-c.ended:
		<-c.notice
		return context.Canceled
	default:
		return nil
	}
}

// answer is the reply of the store to the request of a turn that is passing, and the state that the
// turn gets.
type answer struct {
	what           string
	request, reply trouble // nil: none
	crowd          bool    // a waiter of another process stands in the store's queue
	takes          time.Duration
	becomes        string
}

var answers = []answer{
	{what: "granted", becomes: "given"},
	{what: "refused", crowd: true, becomes: "spent"},
	{what: "unavailable", request: fails(padlock.ErrUnavailable), becomes: "spent"},
	{what: "lost request", request: lost, becomes: "unsure"},
	{what: "lost reply", reply: lost, becomes: "unsure"},
	{what: "lost reply, refused", reply: lost, crowd: true, becomes: "unsure"},
	{what: "granted too late", takes: padlock.DefaultTTL, becomes: "unsure"},
}

// The behaviour of the waiter while its turn is passing: it stays; it gives up; or it gives up and
// notices that after the reply has come.
const (
	stays        = "stays"
	givesUp      = "gives up"
	giveUpByWait = "gives up by Wait"
	givesUpLate  = "gives up late"
)

func TestEachWayOfAPassingTurn(t *testing.T) {
	for _, answer := range answers {
		for _, does := range []string{stays, givesUp, giveUpByWait, givesUpLate} {
			for _, closing := range []string{"", ", Close before", ", Close after"} {
				t.Run(answer.what+", "+does+closing, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						newPassing(t, answer, does).run(t, closing)
					})
				})
			}
		}
	}
}

// passing is one hand-over to one waiter.
type passing struct {
	answer
	does   string
	s      relay
	server driver.Store // another connection to the same place
	l      *padlock.Locker
	ctx    *slowContext
	here   chan struct{} // closed when the answer is here
	rec    recorder

	// The waiter's result.
	done chan struct{}
	lock *padlock.Lock
	err  error
}

func newPassing(t *testing.T, a answer, does string) *passing {
	p := &passing{answer: a, does: does, s: relay{newRemote()}, ctx: newSlowContext(), here: make(chan struct{}), done: make(chan struct{})}
	p.server = p.s.Store.Open()
	p.l = padlock.New(p.s, padlock.Observe(padlock.ObserverFunc(p.rec.on)))
	p.s.request("pass", func(ctx context.Context, n int) error {
		if p.answer.request == nil {
			return nil
		}
		<-p.here
		return p.answer.request(ctx, n)
	})
	p.s.reply("pass", func(ctx context.Context, n int) error {
		<-p.here
		if p.answer.reply == nil {
			return nil
		}
		return p.answer.reply(ctx, n)
	})
	if does != givesUpLate {
		close(p.ctx.notice)
	}
	return p
}

// wait is the waiter.
func (p *passing) wait() {
	defer close(p.done)
	d := time.Hour
	if p.does == giveUpByWait {
		d = time.Millisecond
	}
	p.lock, p.err = p.l.Acquire(p.ctx, "job", padlock.Wait(d))
}

func (p *passing) run(t *testing.T, closing string) {
	h := acquire(t, p.l, "job")
	go p.wait()
	synctest.Wait()
	var other *waiter
	if p.crowd {
		other = wait(t, newLocker(t, relay{connect(p.s.Store)}))
	}
	released, closed := make(chan error, 1), make(chan error, 1)
	go func() { released <- h.Release() }()
	synctest.Wait()
	if n := p.s.requests(); n["pass"] != 1 {
		t.Fatalf("the turn is not passing: %v", n)
	}
	if p.does == givesUp || p.does == givesUpLate {
		close(p.ctx.ended)
	}
	<-time.After(p.takes + 10*time.Millisecond)
	if closing == ", Close before" {
		go func() { closed <- p.l.Close(context.Background()) }()
		synctest.Wait()
	}
	close(p.here)
	synctest.Wait()
	if other != nil {
		release(t, other.lock(t))
		synctest.Wait()
	}
	if closing == ", Close after" {
		go func() { closed <- p.l.Close(context.Background()) }()
		synctest.Wait()
	}
	if p.does == givesUpLate {
		close(p.ctx.notice)
	}
	<-p.done
	if err := <-released; err != nil && (p.takes < padlock.DefaultTTL || !errors.Is(err, padlock.ErrLost)) {
		t.Errorf("Release: %v", err)
	}
	p.check(t, closing)
	wellFormed(t, p.rec.all())
	if closing == "" {
		p.giveBack(t)
		go func() { closed <- p.l.Close(context.Background()) }()
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	p.checkEnd(t)
}

// check looks at the waiter's result.
func (p *passing) check(t *testing.T, closing string) {
	got := p.does == stays && closing != ", Close before"
	if got != (p.lock != nil) {
		t.Fatalf("the waiter has %v, %v", p.lock, p.err)
	}
	if got {
		return
	}
	want := padlock.ErrHeld
	switch {
	case p.does == givesUp || p.does == givesUpLate:
		want = context.Canceled
	case p.does == stays:
		want = padlock.ErrClosed
	}
	if !errors.Is(p.err, want) {
		t.Errorf("the waiter's error is %v", p.err)
	}
	// The waiter knows that the outcome is uncertain if the answer came before it left.
	granted := p.becomes == "given" && closing == ", Close before"
	doubt := p.does == givesUpLate && (p.becomes == "unsure" || granted)
	if doubt != errors.Is(p.err, padlock.ErrUncertain) {
		t.Errorf("the waiter's error is %v", p.err)
	}
}

// giveBack releases the waiter's lock and lets the clean-ups end, long before any lease does.
func (p *passing) giveBack(t *testing.T) {
	if p.lock != nil {
		if err := p.lock.Check(t.Context()); err != nil {
			t.Errorf("the waiter's lock: %v", err)
		}
		release(t, p.lock)
	}
	<-time.After(2 * time.Second)
	checkNothingLeft(t, p.server)
	want := 0
	if p.becomes == "unsure" || p.becomes == "given" && p.does == givesUpLate ||
		p.becomes == "given" && (p.does == givesUp || p.does == giveUpByWait) {
		want = 1
	}
	if n := p.l.Stats().Uncertain; n != uint64(want) {
		t.Errorf("%d clean-ups, want %d", n, want)
	}
}

func (p *passing) checkEnd(t *testing.T) {
	checkNothingLeft(t, p.server)
	if st := p.l.Stats(); st.Held != 0 || st.Waiting != 0 || st.CleanUps != 0 || st.CleanUpsDropped != 0 {
		t.Errorf("%+v", st)
	}
	// If Pass did anything, the token with which it was called is spent.
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	spent := map[string]bool{}
	for _, c := range p.s.calls {
		if (c.op == "acquire" || c.op == "wait") && spent[c.token] {
			t.Errorf("%s was sent a spent token", c.op)
		}
		spent[c.next] = c.next != "" && p.what != "unsupported"
	}
}

// checkNothingLeft reports the names of server that are held or waited for.
func checkNothingLeft(t *testing.T, server driver.Store) {
	t.Helper()
	states, err := server.(driver.Admin).List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if len(s.Holds) > 0 || s.Waiters > 0 {
			t.Errorf("left behind: %+v", s)
		}
	}
}

// A waiter that gives up in the line, or as its head, parked or in the store's queue, leaves the
// others in their order.
func TestGivingUpInLine(t *testing.T) {
	for _, where := range []string{"lined", "parked", "called"} {
		for _, how := range []string{givesUp, giveUpByWait} {
			t.Run(where+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := relay{newRemote()}
					l := newLocker(t, s)
					h := acquire(t, l, "job")
					set := padlock.Wait(time.Hour)
					if how == giveUpByWait {
						set = padlock.Wait(map[string]time.Duration{"called": time.Second}[where] + time.Millisecond)
					}
					before, leaves := []*waiter{}, (*waiter)(nil)
					if where == "lined" {
						before = append(before, wait(t, l))
					}
					leaves = wait(t, l, set)
					after := []*waiter{wait(t, l), wait(t, l)}
					if where == "called" {
						<-time.After(time.Second)
					}
					if n := s.requests()["wait"]; (n == 1) != (where == "called") {
						t.Fatalf("%d wait in the store's queue", n)
					}
					if how == givesUp {
						leaves.cancel()
					} else {
						<-time.After(time.Millisecond)
					}
					synctest.Wait()
					if leaves.lockless(t); !errors.Is(leaves.err, padlock.ErrHeld) {
						t.Error(leaves.err)
					}
					for _, w := range append(before, after...) {
						release(t, h)
						h = w.lock(t)
					}
					release(t, h)
					checkNothingLeft(t, s.Store)
					if st := l.Stats(); st.Uncertain != 0 || st.Waiting != 0 {
						t.Errorf("%+v", st)
					}
				})
			})
		}
	}
}

// A caller joins the line without a try if its own Locker holds the name, even if that lock is not
// passed on. The error of a wait that ends names the holder, although no reply has named it.
func TestNoTryBehindTheOwnLocker(t *testing.T) {
	for what, holder := range map[string]padlock.Option{
		"a hold at least": padlock.HoldAtLeast(time.Minute),
		"a cool-down":     padlock.CoolDown(time.Minute),
		"a plain lock":    padlock.Label(""),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := relay{newRemote()}
				l := newLocker(t, s)
				h := acquire(t, l, "job", holder)
				_, err := l.Acquire(t.Context(), "job", padlock.Wait(time.Millisecond))
				var held *padlock.HeldError
				if !errors.As(err, &held) || len(held.Holds) != 1 || held.Waiters != 0 {
					t.Errorf("the error is %#v, want the holder, and no waiters", err)
				}
				if n := s.requests(); n["acquire"] != 1 {
					t.Errorf("%v, want no try", n)
				}
				release(t, h, padlock.CoolDown(0))
			})
		})
	}
}
