package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// quick is the tick of servers in tests in which the end of a session matters. Servers end sessions
// at multiples of it.
const quick = 50 * time.Millisecond

// queueOf returns the nodes in the queue of a lock.
func queueOf(t testing.TB, conn *zk.Conn, name string) []string {
	t.Helper()
	nodes, _, err := conn.Children("/padlock/" + name)
	if err != nil && err != zk.ErrNoNode {
		t.Fatal(err)
	}
	return nodes
}

// A clocked hold has a clock that the test can stop.
type clocked struct {
	s     *zkstore.Store
	r     driver.Request
	g     driver.Grant
	clock *stopClock
}

// A stopClock is a clock that a test can stop.
type stopClock struct {
	driver.Clock
	stopped atomic.Int64 // the time at which it was stopped, or 0
}

func (c *stopClock) Now() driver.Instant {
	if at := c.stopped.Load(); at != 0 {
		return driver.Instant(at)
	}
	return c.Clock.Now()
}

func (c *stopClock) stop() { c.stopped.Store(int64(c.Clock.Now())) }

// takeClocked takes a name with a store of its own, whose session is short.
func takeClocked(t *testing.T, addr, name string) (*clocked, error) {
	h := &clocked{r: request(name), clock: &stopClock{Clock: driver.SystemClock()}}
	var err error
	h.s, err = openAt(t.Context(), zkstore.Config{Servers: []string{addr}}, zkstore.SessionTimeout(short), zkstore.WithClock(h.clock))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { h.s.Close() })
	if h.g, err = h.s.Acquire(t.Context(), h.r); err != nil {
		h.s.Close()
	}
	return h, err
}

// lostFirst checks that a holder, by its own clock, has lost its lock before another store gets the
// name. The goroutine that ends Bound may be late on a busy machine. So lostFirst stops the
// holder's clock when the name is granted, and then asks the holder, which cannot reach its server.
func (h *clocked) lostFirst(t *testing.T, other driver.Store, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for r := request(name); ; {
		_, err := other.Acquire(ctx, r)
		if err == nil {
			h.clock.stop()
			break
		}
		if ctx.Err() != nil || !errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrUncertain) && !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Acquire of %s for the next: %v", name, err)
			return
		}
	}
	_, err := h.s.Extend(t.Context(), name, h.r.Token.Text(), 0)
	if bound := context.Cause(h.g.Bound); !errors.Is(err, driver.ErrLost) || !errors.Is(bound, driver.ErrLost) {
		t.Errorf("the next holder has %s; the one before says %v, and its Bound %v", name, err, bound)
	}
}

// T-Z1: a holder that is cut off from its server loses the lock by its own clock, before the server
// gives the lock to the next holder.
func lostBeforeTheNextGrant(t *testing.T, srv *server.Server) {
	b := mustOpen(t, srv.Addr())
	for i := range 3 {
		p := server.NewProxy(t, srv.Addr())
		name := fmt.Sprint("lostBeforeTheNextGrant", i)
		var h *clocked
		server.Eventually(t, func() (err error) { // a short session may end on a busy machine
			h, err = takeClocked(t, p.Addr(), name)
			return err
		})
		<-time.After(rand.N(short / 2))
		p.Silence(true)
		if i == 1 {
			p.Cut()
		}
		h.lostFirst(t, b, name)
		p.Silence(false)
	}
}

// The servers free the locks of a process that was killed, and those of one that was stopped. The
// process that was stopped notices its loss when it continues.
func holderKilledAndStopped(t *testing.T, srv *server.Server) {
	s := mustOpen(t, srv.Addr())
	killed, _ := startChild(t, "hold", srv.Addr(), "holderKilledAndStopped")
	refused(t, s, request("holderKilledAndStopped"))
	killed.Process.Kill()
	r, _ := eventually(t, s, "holderKilledAndStopped")
	release(t, s, r)
	stopped, lines := startChild(t, "hold", srv.Addr(), "holderKilledAndStopped")
	server.StopProcess(t, stopped.Process.Pid)
	eventually(t, s, "holderKilledAndStopped")
	if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	expectLine(t, lines, "lost")
}

// A waiter whose process was stopped delays the next one only until the session of that process
// ends.
func waiterStopped(t *testing.T, srv *server.Server) {
	s := mustOpen(t, srv.Addr())
	r := request("waiterStopped")
	take(t, s, r)
	waiter, _ := startChild(t, "wait", srv.Addr(), "waiterStopped")
	waitUntil(t, "a waiter", func() bool { st, err := s.Inspect(t.Context(), "waiterStopped"); return err == nil && st.Waiters == 1 })
	server.StopProcess(t, waiter.Process.Pid)
	release(t, s, r)
	eventually(t, s, "waiterStopped")
}

// T-Z2: whichever reply is lost, the call returns no wrong answer, and after the release no node is
// left.
func repliesLostAtEachStep(t *testing.T, srv *server.Server) {
	conn := rawConn(t, srv.Addr())
	for what, code := range map[string]uint32{
		"create": create, "children": children, "getData": getData, "exists": exists, "setData": setData, "delete": remove, "multi": multi, "sync": syncPath,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := server.NewProxy(t, srv.Addr())
			s := mustOpen(t, p.Addr())
			for round, run := range []func(testing.TB, *zkstore.Store, string){acquireRelease, refusedTry, promoteDemote, waitAndCancel, raiseAndBreak} {
				name := fmt.Sprint(what, "-", round)
				for range 2 { // names are new in the first round, and known in the second
					p.LoseReply(carries(code))
					run(t, s, name)
					waitUntil(t, "no node is left of "+name, func() bool { return len(queueOf(t, conn, name)) == 0 })
				}
			}
		})
	}
}

// whileUncertain repeats a request as package padlock does.
func whileUncertain(t testing.TB, what string, f func() error) {
	t.Helper()
	waitUntil(t, what, func() bool {
		err := f()
		if err != nil && !errors.Is(err, driver.ErrUncertain) && !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

func surely(t testing.TB, s *zkstore.Store, r driver.Request) (g driver.Grant) {
	t.Helper()
	whileUncertain(t, "Acquire", func() (err error) { g, err = s.Acquire(t.Context(), r); return err })
	return g
}

func surelyRelease(t testing.TB, s *zkstore.Store, r driver.Request) {
	t.Helper()
	whileUncertain(t, "Release", func() error {
		out, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0)
		if err == nil && out != driver.OutcomeReleased && out != driver.OutcomeGone {
			t.Errorf("Release: %v", out)
		}
		return err
	})
}

func acquireRelease(t testing.TB, s *zkstore.Store, name string) {
	last := uint64(0)
	for _, shared := range []bool{false, true} {
		r := request(name)
		r.Shared = shared
		g := surely(t, s, r)
		safety.Rises(t, g.Fence, last)
		last = g.Fence
		if again := surely(t, s, r); again.Fence != g.Fence {
			t.Errorf("a repeat has fence %d instead of %d", again.Fence, g.Fence)
		}
		surelyRelease(t, s, r)
	}
}

func refusedTry(t testing.TB, s *zkstore.Store, name string) {
	r, other := request(name), request(name)
	surely(t, s, r)
	waitUntil(t, "a refusal", func() bool {
		_, err := s.Acquire(t.Context(), other)
		if err == nil {
			safety.TwoHold(t, "the name was granted twice")
			t.FailNow()
		}
		return errors.Is(err, driver.ErrHeld)
	})
	surelyRelease(t, s, r)
}

func promoteDemote(t testing.TB, s *zkstore.Store, name string) {
	r := reader(name)
	before := surely(t, s, r).Fence
	var g driver.Grant
	for _, shared := range []bool{false, true, false} {
		r.Shared = shared
		whileUncertain(t, "Convert", func() (err error) { g, err = s.Convert(t.Context(), r); return err })
	}
	safety.Rises(t, g.Fence, before)
	surelyRelease(t, s, r)
}

func waitAndCancel(t testing.TB, s *zkstore.Store, name string) {
	r := request(name)
	surely(t, s, r)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if g, err := s.Wait(ctx, request(name), true); g.TTL > 0 {
		t.Errorf("Wait for a name that is held: %+v, %v", g, err)
	}
	surelyRelease(t, s, r)
}

func raiseAndBreak(t testing.TB, s *zkstore.Store, name string) {
	r := request(name)
	g := surely(t, s, r)
	whileUncertain(t, "RaiseFence", func() error { return s.RaiseFence(t.Context(), name, r.Token.Text(), g.Fence+1000) })
	var st driver.State
	whileUncertain(t, "Inspect", func() (err error) { st, err = s.Inspect(t.Context(), name); return err })
	if st.Fence != g.Fence+1000 {
		safety.Broken(t, "the fence was raised to %d, and is %d", g.Fence+1000, st.Fence)
	}
	if _, err := s.Break(t.Context(), name, st.Fence); errors.Is(err, driver.ErrLost) {
		t.Errorf("Break: %v", err)
	}
	surelyRelease(t, s, r)
}

// Waits and tries that are cancelled at any moment leave no node behind.
func cancelledCalls(t *testing.T, srv *server.Server) {
	s, conn := mustOpen(t, srv.Addr()), rawConn(t, srv.Addr())
	r := request("cancelledCalls")
	take(t, s, r)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
			defer cancel()
			if _, err := s.Wait(ctx, request("cancelledCalls"), true); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait: %v", err)
			}
			s.Acquire(ctx, request("cancelledCalls"))
		})
	}
	wg.Wait()
	waitUntil(t, "one node is left", func() bool { return len(queueOf(t, conn, "cancelledCalls")) == 1 })
	release(t, s, r)
}

// A holder notices that its lock was broken, even if its connection is idle, and if another program
// has changed the data of its node before.
func breakIsNoticed(t *testing.T, srv *server.Server) {
	a, b := mustOpen(t, srv.Addr(), zkstore.SessionTimeout(patient)), mustOpen(t, srv.Addr())
	first, second := request("breakIsNoticed"), request("other")
	g, kept := take(t, a, first), take(t, a, second)
	conn := rawConn(t, srv.Addr())
	for range 30 { // the watch on the node is set after some time
		path := "/padlock/breakIsNoticed/" + queueOf(t, conn, "breakIsNoticed")[0]
		data, _, err := conn.Get(path)
		if err == nil {
			_, err = conn.Set(path, data, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(50 * time.Millisecond)
	}
	if _, err := b.Break(t.Context(), "breakIsNoticed", g.Fence); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, g.Bound)
	if kept.Bound.Err() != nil {
		t.Error("another hold of the store has ended too")
	}
	release(t, a, second)
}

// If somebody deletes the node of a free lock, or all data is lost, fences do not fall.
func fencesAfterTheNodeWasDeleted(t *testing.T, srv *server.Server) {
	s, conn := mustOpen(t, srv.Addr()), rawConn(t, srv.Addr())
	last := uint64(0)
	for range 3 {
		for range 50 {
			r := request("fencesAfterTheNodeWasDeleted")
			g := take(t, s, r)
			safety.Rises(t, g.Fence, last)
			last = g.Fence
			release(t, s, r)
		}
		if err := conn.Delete("/padlock/fencesAfterTheNodeWasDeleted", -1); err != nil {
			t.Fatal(err)
		}
	}
}

// A store that logs in makes nodes that nobody else can use, and still does so after its connection
// was cut.
func nodesBelongToTheirUser(t *testing.T, srv *server.Server) {
	p := server.NewProxy(t, srv.Addr())
	c := zkstore.Config{Servers: []string{p.Addr()}, Credentials: zkstore.Login("app", "secret:word")}
	a, stranger, conn := mustOpenAt(t, c), mustOpen(t, srv.Addr()), rawConn(t, srv.Addr())
	for range 3 {
		r := request("nodesBelongToTheirUser")
		take(t, a, r)
		if _, err := stranger.Acquire(t.Context(), request("nodesBelongToTheirUser")); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Acquire by a stranger: %v", err)
		}
		if err := conn.Delete(path.Join("/padlock/nodesBelongToTheirUser", "x"), -1); err != zk.ErrNoAuth {
			t.Errorf("Delete by a stranger: %v", err)
		}
		p.Cut()
		surelyRelease(t, a, r)
	}
	if found := findingOf(t, a, "skipACL", "no"); found.Advice != "" {
		t.Errorf("skipACL: %+v", found)
	}
}

// Close returns soon, whatever state the connection is in.
func closeWhileCutOff(t *testing.T, srv *server.Server) {
	for range 2 {
		p := server.NewProxy(t, srv.Addr())
		s := mustOpen(t, p.Addr())
		take(t, s, request("closeWhileCutOff"+p.Addr()))
		p.Silence(true)
		done := make(chan error, 1)
		go func() { done <- s.Close() }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(soon):
			t.Fatal("Close does not return while the server is silent")
		}
	}
}
