package advisory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// The holds of a thousand names need 4 connections, and leave nothing behind.
func TestConnections(t *testing.T) {
	s := open(newServer())
	defer s.Close()
	var all []driver.Request
	for i := range 1000 {
		r := request(fmt.Sprint("job ", i))
		if _, err := s.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if n := len(s.dialect.sessions); n > 4 {
		t.Errorf("1,000 holds use %d connections", n)
	}
	for _, r := range all {
		if out, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeReleased || err != nil {
			t.Fatalf("Release: %v, %v", out, err)
		}
	}
	if left := advisory.Leftovers(s.Store); left != "" || len(s.dialect.srv.owner) > 0 {
		t.Errorf("%s; the server has %d locks", left, len(s.dialect.srv.owner))
	}
}

// A process has 8 sessions for waiters. A waiter that finds all of them used gets one in turn, and
// the waiter that left its session gets one again. While its lock is held, its Wait does not return.
func TestWaiterBehindTheEighth(t *testing.T) { synctest.Test(t, waiterBehindTheEighth) }

func waiterBehindTheEighth(t *testing.T) {
	srv := newServer()
	a, b := open(srv), open(srv)
	defer a.Close()
	defer b.Close()
	last := request("last")
	for _, r := range []driver.Request{last, request("held")} {
		if _, err := a.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 8 {
		go b.Wait(ctx, request("held"), true)
	}
	synctest.Wait()
	ninth := make(chan driver.Grant, 1)
	go func() {
		g, err := b.Wait(ctx, request("last"), true)
		if err != nil {
			t.Errorf("Wait: %v", err)
		}
		ninth <- g
	}()
	queued := func(name string) int {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		return len(srv.queue["key of "+name])
	}
	await := func(last, held int) {
		t.Helper()
		for range 600 {
			if queued("last") == last && queued("held") == held {
				return
			}
			<-time.After(100 * time.Millisecond)
		}
		t.Fatalf("the queues have %d and %d waiters after a minute, want %d and %d", queued("last"), queued("held"), last, held)
	}
	await(1, 7)
	await(0, 8)
	await(1, 7)
	if len(ninth) > 0 {
		safety.TooEarly(t, "Wait has returned while the lock was held")
		t.FailNow()
	}
	a.Release(t.Context(), "last", last.Token.Text(), 0)
	if g := <-ninth; g.TTL == 0 {
		t.Error("the lock was not reserved for the ninth waiter")
	}
}

// While nobody seeks a session, waiters keep theirs, and so their places.
func TestWaitersKeepTheirSessions(t *testing.T) { synctest.Test(t, waitersKeepTheirSessions) }

func waitersKeepTheirSessions(t *testing.T) {
	srv := newServer()
	a, b := open(srv), open(srv)
	defer a.Close()
	defer b.Close()
	if _, err := a.Acquire(t.Context(), request("held")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 8 {
		go b.Wait(ctx, request("held"), true)
	}
	synctest.Wait()
	before := len(b.dialect.sessions)
	<-time.After(10 * time.Minute)
	if n := len(b.dialect.sessions); n != before {
		t.Errorf("8 waiters had %d sessions, and %d in ten minutes", before, n)
	}
}

// The session of a waiter ends before the waiter has claimed its reservation. The claim is then a
// new try, because the waiter had no hold yet.
func TestReservationEndsWithItsSession(t *testing.T) {
	s := open(newServer())
	defer s.Close()
	r := request("job")
	reserved, err := s.Wait(t.Context(), r, true)
	if err != nil {
		t.Fatal(err)
	}
	s.dialect.cut()
	if g, err := s.Acquire(t.Context(), r); err != nil || !safety.Rises(t, g.Fence, reserved.Fence) || g.TTL != 0 {
		t.Errorf("after a reservation with fence %d: %+v, %v", reserved.Fence, g, err)
	}
}

// A silent dialect never gets a connection.
type silent struct{ *dialect }

func (silent) Connect(ctx context.Context) (*session, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The server is silent before the store has a connection. No try has been sent, so no outcome is
// uncertain, however many callers want the connection.
func TestSilentBeforeTheFirstConnection(t *testing.T) { synctest.Test(t, silentAtFirst) }

func silentAtFirst(t *testing.T) {
	s := openOn(silent{&dialect{srv: newServer()}})
	defer s.Close()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			began := time.Now()
			_, err := s.Acquire(t.Context(), request("job"))
			if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || time.Since(began) > driver.MaxSilence {
				t.Errorf("Acquire, after %v: %v", time.Since(began), err)
			}
		})
	}
	all.Wait()
}

// A crowded dialect connects only once: the server is silent to everybody who comes later.
type crowded struct {
	*dialect
	once sync.Once
}

func (d *crowded) Connect(ctx context.Context) (c *session, err error) {
	d.once.Do(func() { c, err = d.dialect.Connect(ctx) })
	if c == nil {
		<-ctx.Done()
		err = ctx.Err()
	}
	return c, err
}

// A caller that finds the only connection busy does not wait for a new one if the first one becomes
// idle before.
func TestIdleBeforeTheSecondConnection(t *testing.T) { synctest.Test(t, idleBeforeTheSecond) }

func idleBeforeTheSecond(t *testing.T) {
	d := &crowded{dialect: &dialect{srv: newServer()}}
	s := openOn(d)
	defer s.Close()
	resume := make(chan struct{})
	d.before = func(r *driver.Request) {
		if r.Name == "first" {
			<-resume
		}
	}
	var all sync.WaitGroup
	acquire := func(name string) {
		all.Go(func() {
			if _, err := s.Acquire(t.Context(), request(name)); err != nil {
				t.Errorf("Acquire of %q: %v", name, err)
			}
		})
		synctest.Wait()
	}
	acquire("first")
	acquire("second")
	began := time.Now()
	close(resume)
	all.Wait()
	if took := time.Since(began); took > 0 {
		t.Errorf("it took %v", took)
	}
}

// A sweeping dialect has a large table, and needs a second for each batch.
type sweeping struct {
	*dialect
	rows int
}

func (d *sweeping) Sweep(_ *session, _ string, batch int, _ time.Duration) (int, string, error) {
	<-time.After(time.Second)
	n := min(batch, d.rows)
	if d.rows -= n; d.rows == 0 {
		return n, "", nil
	}
	return n, "last key", nil
}

// A Prune of a large table takes longer than one call to a silent server may take. It goes on until
// the table is done, or until its context ends.
func TestPruneOfALargeTable(t *testing.T) { synctest.Test(t, pruneOfALargeTable) }

func pruneOfALargeTable(t *testing.T) {
	d := &sweeping{dialect: &dialect{srv: newServer()}, rows: 5000}
	s := openOn(d)
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	first, err := s.Prune(ctx)
	if first != 1000 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d rows were removed until the context ended, %v; want two batches of 500", first, err)
	}
	if n, err := s.Prune(t.Context()); n != 4000 || err != nil {
		t.Errorf("%d rows were removed, %v; want the other 4,000", n, err)
	}
}
