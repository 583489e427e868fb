package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
)

// waitersAt lets two callers wait at one member, beside a quorum, until the end of the test.
func waitersAt(t *testing.T, c cluster, member int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for range 2 {
		go c[member-1].now().Wait(ctx, request("n"), true)
	}
	synctest.Wait()
}

// A caller that has just released the name tries again at once. Others wait in the queue of
// member 1, and the name is free for a moment at members 2 and 3: the first waiter is slow. The
// waiter gets the name. A waiter that stands alone gets it, too: when the queue has given it the
// name, nobody waits there any more.
func TestNewcomerDoesNotOvertake(t *testing.T) {
	for waiters, opts := range map[int][]quorum.Option{1: nil, 2: nil, 3: {quorum.NoFences()}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			open := func() *client {
				cl := c.client(t, quorum.Majority, opts...)
				t.Cleanup(func() { cl.Close() })
				return cl
			}
			a, r := open(), request("n")
			take(t, a, r)
			got := make(chan time.Time, waiters)
			for range waiters {
				w, wr := open(), request("n")
				w.these(slow(3*time.Millisecond), 2, 3)
				go func() {
					if g, err := w.Wait(t.Context(), wr, true); g.TTL > 0 && err == nil {
						got <- time.Now()
						w.Release(t.Context(), wr.Name, wr.Token.Text(), 0)
					}
				}()
				synctest.Wait()
			}
			began := time.Now()
			wantOutcome(t, a, r, driver.OutcomeReleased)
			refused(t, a, request("n"), driver.ErrHeld, driver.ErrUncertain, driver.ErrUnavailable)
			for range waiters {
				if d := (<-got).Sub(began); d > 100*time.Millisecond {
					t.Errorf("a waiter got the name after %v", d)
				}
			}
		})
	}
}

// The member with the queue answers a little later than the others. A caller waits for it, but not
// for one that is much slower than the others, and not for one that does not answer.
func TestNewcomerAsksTheQueue(t *testing.T) {
	for what, test := range map[string]struct {
		first, then fault // the faults of member 1
		refused     bool
		most        time.Duration
	}{
		"a little later": {slow(time.Millisecond), slow(5 * time.Millisecond), true, 20 * time.Millisecond},
		"much later":     {slow(200 * time.Millisecond), slow(200 * time.Millisecond), false, 20 * time.Millisecond},
		"never":          {silent, silent, false, 20 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
				a, earlier := open(), request("n")
				a.these(test.first, 1)
				take(t, a, earlier) // tells how fast the members are
				pass(time.Second)
				wantOutcome(t, a, earlier, driver.OutcomeReleased)
				a.heal()
				pass(20 * time.Second)
				take(t, c[0].now(), request("n"))
				waitersAt(t, c, 1)
				a.these(test.then, 1)
				var err error
				if d := took(func() { _, err = a.Acquire(t.Context(), request("n")) }); d > test.most {
					t.Errorf("it took %v", d)
				}
				if test.refused {
					wantErr(t, err, driver.ErrHeld, driver.ErrUncertain)
				} else if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Member 1 has the queue, and is slower to release than the others. A call after Release is not refused
// because of what is still there.
func TestReleaseWaitsForTheQueue(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		hearsAll(t, a)
		hearsAll(t, b)
		a.links[0].set(on("release", slow(5*time.Millisecond)))
		r := request("n")
		take(t, a, r)
		wantOutcome(t, a, r, driver.OutcomeReleased)
		take(t, b, request("n"))
	})
}

// A call that has come out of turn is refused as held, even if the hold at member 1 stops counting as new
// while the call gives up what the others have granted.
func TestOutOfTurnStaysSo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		b := open()
		hearsAll(t, b)
		rest := request("n")
		rest.TTL = time.Minute
		take(t, c[0].now(), rest)
		pass(driver.MaxReservation - 5*time.Millisecond)
		for i := range 2 {
			b.links[1+i].set(on("release", slow(10*time.Millisecond)))
		}
		refused(t, b, request("n"), driver.ErrHeld, driver.ErrUnavailable, driver.ErrSpent)
	})
}

// Member 1 has the queue and is silent, and the others split their votes. The caller may try again, so the
// error is not ErrUncertain, which would end a wait.
func TestSplitVoteBesideASilentQueue(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		b := open()
		hearsAll(t, b)
		b.these(silent, 1)
		take(t, c[1].now(), request("n"))
		refused(t, b, request("n"), driver.ErrUnavailable, driver.ErrUncertain, driver.ErrHeld)
		b.heal()
		pass(10 * time.Second)
	})
}

// hearsAll lets each member answer the client once. Afterwards a call waits for the answer of the one
// with the queue.
func hearsAll(t *testing.T, a *client) {
	t.Helper()
	r := request("another name")
	take(t, a, r)
	synctest.Wait()
	wantOutcome(t, a, r, driver.OutcomeReleased)
	synctest.Wait()
}

// A hold that reached no quorum is left at the member with the queue, and others wait there. A
// waiter that has noticed this takes the name at the other members.
func TestRestBeforeAQueue(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		rest := request("n")
		rest.TTL = time.Minute
		take(t, c[0].now(), rest)
		waitersAt(t, c, 1)
		b := open()
		hearsAll(t, b)
		refused(t, b, request("n"), driver.ErrHeld)
		wantNoHandOver(t, b, request("n"), 800*time.Millisecond, 1400*time.Millisecond)
		take(t, b, request("n"))
	})
}
