package quorum_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
)

// wait calls Wait with reserve, and returns how long it lasted. The grant is zero or a hold.
func wait(t *testing.T, s driver.Store, r driver.Request) (time.Duration, driver.Grant, error) {
	t.Helper()
	var g driver.Grant
	var err error
	d := took(func() { g, err = s.(driver.Waiter).Wait(t.Context(), r, true) })
	if g != (driver.Grant{}) && (g.From == 0 || g.TTL != r.TTL || g.Fence == 0) {
		t.Errorf("Wait handed over %+v", g)
	}
	return d, g, err
}

// wantHandOver waits, and wants a hold after d, or a little later: the members do not release at
// the same instant, and those that still refuse are asked again.
func wantHandOver(t *testing.T, s driver.Store, r driver.Request, d time.Duration) {
	t.Helper()
	if took, g, err := wait(t, s, r); took < d || took > d+7*time.Millisecond || g.TTL == 0 || err != nil {
		t.Errorf("Wait returned %+v, %v after %v; want a hold after %v", g, err, took, d)
	}
	wantLive(t, s, r)
}

// wantNoHandOver waits, and wants no hold.
func wantNoHandOver(t *testing.T, s driver.Store, r driver.Request, from, to time.Duration) {
	t.Helper()
	if d, g, err := wait(t, s, r); d < from || d > to || g.TTL > 0 || err != nil {
		t.Errorf("Wait returned %+v, %v after %v; want no hold, after %v to %v", g, err, d, from, to)
	}
}

// releaseAfter releases r after d.
func releaseAfter(t *testing.T, s driver.Store, r driver.Request, d time.Duration) {
	time.AfterFunc(d, func() { s.Release(t.Context(), r.Name, r.Token.Text(), 0) })
}

func TestWait(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		r := request("n")
		wantHandOver(t, b, r, 0)
		releaseAfter(t, b, r, 5*time.Second)
		r = request("n")
		wantHandOver(t, a, r, 5*time.Second)
		b.these(down, 1, 2, 3)
		var err error
		for range 4 { // the first three find out that their members are down
			_, _, err = wait(t, b, request("n"))
		}
		wantErr(t, err, driver.ErrUnavailable, driver.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		b.these(silent, 1, 2, 3)
		for _, reserve := range []bool{true, false} {
			_, err = b.Wait(ctx, request("n"), reserve)
			wantErr(t, err, context.DeadlineExceeded, driver.ErrUnavailable)
		}
	})
}

// waitOn waits with new tokens until it gets a hold, at most most times, and returns its request.
func waitOn(t *testing.T, s driver.Store, most int) (r driver.Request) {
	t.Helper()
	for range most {
		r = request("n")
		_, g, err := wait(t, s, r)
		if err != nil {
			t.Fatal(err)
		}
		if g.TTL > 0 {
			return r
		}
	}
	t.Fatalf("no hold after %d waits", most)
	return r
}

// Wait stands in the queue of the first member that works. If that member falls silent, a waiter
// notices it when it looks after about a second. Its next Wait uses the next member that works.
func TestWaitBesideDeadMembers(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		r := request("n")
		take(t, a, r)
		pass(time.Millisecond) // until all members have granted the hold
		b.these(down, 1, 2)
		releaseAfter(t, a, r, 100*time.Millisecond)
		if d := took(func() { r = waitOn(t, b, 3) }); d < 100*time.Millisecond || d > 107*time.Millisecond {
			t.Errorf("the hold came after %v, want 100ms", d)
		}
		wantOutcome(t, b, r, driver.OutcomeReleased)
	})
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		b.these(silent, 1, 2)
		releaseAfter(t, a, r, 2*time.Second)
		if d := took(func() { waitOn(t, b, 2) }); d < 2*time.Second || d > 2007*time.Millisecond {
			t.Errorf("the hold came after %v, want 2s", d)
		}
	})
}

// A hold that reached no quorum may be left at the member with the queue, for example by a process
// that was killed. A waiter notices that the name is free at the others, and tries.
func TestWaitBehindARest(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		rest := request("n")
		rest.TTL = time.Minute
		take(t, c[0].now(), rest)
		b := open()
		wantNoHandOver(t, b, request("n"), 800*time.Millisecond, 1400*time.Millisecond)
		take(t, b, request("n"))
	})
}

// The waiters of all processes stand in one queue, and a release wakes one of them.
func TestOneQueue(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		const waiters = 10
		r := request("n")
		holder := open()
		take(t, holder, r)
		pass(time.Millisecond)
		releaseAfter(t, holder, r, 100*time.Millisecond)
		order := make(chan int, waiters)
		var all []*client
		for range waiters {
			all = append(all, open())
		}
		errs := together(t, waiters, func(ctx context.Context, i int) error {
			<-time.After(time.Duration(i+1) * time.Millisecond)
			r := request("n")
			g, err := all[i].Wait(ctx, r, true)
			if err != nil || g.TTL == 0 {
				return errors.Join(err, errors.New("no hold"))
			}
			order <- i
			<-time.After(5 * time.Millisecond)
			_, err = all[i].Release(ctx, r.Name, r.Token.Text(), 0)
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		asked := 0
		for i := range waiters {
			if first := <-order; first != i {
				t.Errorf("waiter %d came when it was the turn of %d", first, i)
			}
			for _, l := range all[i].links {
				asked += l.count("acquire")
			}
		}
		if most := 2 * 3 * waiters; asked > most { // a member may refuse once, if it releases a little later
			t.Errorf("the waiters sent %d requests for the lock, want at most %d", asked, most)
		}
	})
}

// tardy is a member whose Wait hands the name over although its context has ended, after the time
// late.
type tardy struct {
	*link
	late time.Duration
}

func (w tardy) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	<-ctx.Done()
	<-time.After(w.late)
	return w.link.Acquire(context.WithoutCancel(ctx), r)
}

// A name that the queue hands over is released if the wait has ended, and if the try is lost.
func TestWaitLeavesNothing(t *testing.T) {
	for _, late := range []time.Duration{0, time.Millisecond, 2 * time.Second} {
		bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
			l := open().links
			s, err := quorum.New(quorum.Majority, []driver.Store{tardy{l[0], late}, l[1], l[2]})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err = s.Wait(ctx, request("n"), true)
			wantErr(t, err, context.DeadlineExceeded)
			nothingLeft(t, c)

			time.AfterFunc(10*time.Millisecond, func() { s.Close() })
			_, err = s.Wait(t.Context(), request("n"), true)
			wantErr(t, err, driver.ErrClosed)
			nothingLeft(t, c)
		})
	}
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		b, r := open(), request("n")
		take(t, c[1].now(), r)
		take(t, c[2].now(), r)
		b.links[0].next("acquire", down)
		time.AfterFunc(500*time.Millisecond, func() { wantHolders(t, c, "n", 2, 3) })
		b.Wait(t.Context(), request("n"), true)
	})
}

// Wait tries when the queue hands the name over, even if others still have it at the other members
// for a moment. If they keep it, Wait gives the first member back, so that the holder can get it,
// and waits for the others.
func TestWaitCountsMembers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		b, r := open(), request("n")
		r.TTL = 300 * time.Millisecond
		take(t, c[0].now(), r)
		take(t, c[1].now(), r)
		mine := request("n")
		wantHandOver(t, b, mine, 300*time.Millisecond)
		wantOutcome(t, b, mine, driver.OutcomeReleased)
		pass(time.Second)

		r = request("n")
		take(t, c[1].now(), r)
		take(t, c[2].now(), r)
		for i := range 2 {
			time.AfterFunc(1500*time.Millisecond, func() { c[i+1].now().Release(t.Context(), "n", r.Token.Text(), 0) })
		}
		time.AfterFunc(1400*time.Millisecond, func() { wantHolders(t, c, "n", 2, 3) })
		wantNoHandOver(t, b, request("n"), 1500*time.Millisecond, 1500*time.Millisecond)
	})
}

func TestCloseEndsWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		take(t, a, request("n"))
		pass(time.Millisecond)
		time.AfterFunc(10*time.Millisecond, func() { b.Close() })
		d, _, err := wait(t, b, request("n"))
		wantErr(t, err, driver.ErrClosed)
		if d != 10*time.Millisecond {
			t.Errorf("it returned after %v", d)
		}
	})
}

// If the members have no Wait, the quorum polls them.
func TestWaitWithMembersThatCannot(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c cluster, open func() *client) {
		held := open()
		r := request("n")
		take(t, c[0].now(), r)
		s, err := quorum.New(quorum.Majority, []driver.Store{held.links[0], withFence(driver.FenceNone), withFence(driver.FenceNone)}, quorum.NoFences())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		d := took(func() { _, err = s.Wait(t.Context(), request("n"), false) })
		if d < 100*time.Millisecond || d > 300*time.Millisecond || err != nil {
			t.Errorf("Wait returned after %v: %v", d, err)
		}
	})
}

// Many waiters use Lockers for locks that last a moment. Each waiter gets its turn.
func TestManyWaitersMakeProgress(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		const clients, turns = 8, 5
		inside := make(chan struct{}, 1)
		errs := together(t, clients, func(ctx context.Context, i int) error {
			cl := open()
			for j, l := range cl.links {
				l.always(slow(time.Duration(1+(i*7+j*5)%11) * 100 * time.Microsecond))
			}
			for range turns {
				if err := turn(ctx, cl, inside); err != nil {
					return err
				}
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	})
}

// turn takes the name, waits for it if need be, and gives it up after a moment.
func turn(ctx context.Context, cl *client, inside chan struct{}) error {
	for {
		r := request("n")
		_, err := cl.Acquire(ctx, r)
		if errors.Is(err, driver.ErrHeld) {
			var g driver.Grant
			r = request("n")
			if g, err = cl.Wait(ctx, r, true); err == nil && g.TTL == 0 {
				continue
			}
		}
		if err != nil {
			return err
		}
		select {
		case inside <- struct{}{}:
		default:
			return errors.New("two are inside")
		}
		<-time.After(time.Millisecond)
		<-inside
		_, err = cl.Release(ctx, r.Name, r.Token.Text(), 0)
		return err
	}
}
