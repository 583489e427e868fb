package quorum_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// This file has one test for each row of the two tables at stage, in the order of the tables.
// Member 1 is the first that is asked.

type edge struct {
	name string
	test func(t *testing.T, c cluster, a *client)
}

func testEdges(t *testing.T, edges []edge) {
	for _, e := range edges {
		t.Run(e.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
				a := open()
				e.test(t, c, a)
				a.heal()
				pass(10 * time.Second) // for requests that are on their way
			})
		})
	}
}

// refused calls Acquire with r, which must fail with want.
func refused(t *testing.T, s driver.Store, r driver.Request, want error, not ...error) {
	t.Helper()
	_, err := s.Acquire(t.Context(), r)
	wantErr(t, err, want, not...)
}

// nothingLeft waits until all clean-ups are over.
func nothingLeft(t *testing.T, c cluster) {
	t.Helper()
	pass(3 * time.Second)
	wantHolders(t, c, "n")
}

// on returns a plan that gives the fault f to all requests for op. Other requests have no fault.
func on(op string, f fault) func(string) fault {
	return func(o string) fault {
		if o == op {
			return f
		}
		return fault{}
	}
}

// ahead makes member 1 answer first, with a fence that must be written to another member: member 2
// answers soon, but member 3 too late. The plan decides the faults of other requests to them.
func ahead(c cluster, a *client, plan func(op string) fault) {
	c[0].clock.ahead.Store(int64(time.Hour))
	for i, delay := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		a.links[i+1].set(func(op string) fault {
			if op == "acquire" {
				return slow(delay)
			}
			return plan(op)
		})
	}
}

func TestUndecidedTry(t *testing.T) {
	testEdges(t, []edge{
		{"undecided, enough granted: won", func(t *testing.T, c cluster, a *client) {
			a.these(down, 1)
			take(t, a, request("n"))
			wantHolders(t, c, "n", 2, 3)
		}},
		{"undecided, enough granted, but others wait: held", func(t *testing.T, c cluster, a *client) {
			hearsAll(t, a)
			take(t, c[0].now(), request("n"))
			waitersAt(t, c, 1)
			refused(t, a, request("n"), driver.ErrHeld, driver.ErrUncertain, driver.ErrUnavailable)
			pass(time.Second)
			wantHolders(t, c, "n", 1)
		}},
		{"undecided, too many refuse: held", func(t *testing.T, c cluster, a *client) {
			take(t, c[0].now(), request("n"))
			take(t, c[1].now(), request("n"))
			refused(t, a, request("n"), driver.ErrHeld, driver.ErrUncertain, driver.ErrUnavailable)
			pass(time.Second)
			wantHolders(t, c, "n", 1, 2)
		}},
		{"undecided, too few can be asked: unavailable", func(t *testing.T, c cluster, a *client) {
			a.these(down, 1, 2)
			refused(t, a, request("n"), driver.ErrUnavailable, driver.ErrHeld, driver.ErrUncertain)
			nothingLeft(t, c)
		}},
		{"undecided, time is up: uncertain", func(t *testing.T, c cluster, a *client) {
			a.these(silent, 1, 2)
			refused(t, a, request("n"), driver.ErrUncertain, driver.ErrHeld)
			nothingLeft(t, c)
		}},
		{"undecided, the context ends: its error", func(t *testing.T, c cluster, a *client) {
			a.these(silent, 1, 2)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := a.Acquire(ctx, request("n"))
			wantErr(t, err, context.DeadlineExceeded, driver.ErrHeld)
			if d := time.Since(began); d > 100*time.Millisecond {
				t.Errorf("it went on for %v", d)
			}
			a.heal()
			nothingLeft(t, c)
		}},
	})
}

func TestWonTry(t *testing.T) {
	testEdges(t, []edge{
		{"won, a quorum has the fence: granted", func(t *testing.T, c cluster, a *client) {
			ahead(c, a, on("raise", slow(time.Millisecond)))
			a.links[2].set(on("acquire", silent))
			g := take(t, a, request("n"))
			if n := c.atLeast("n", g.Fence); n != 2 || a.links[1].count("raise") != 1 {
				t.Errorf("%d members have the fence", n)
			}
		}},
		{"won, no quorum takes the fence: what the members say", func(t *testing.T, c cluster, a *client) {
			ahead(c, a, on("raise", down))
			refused(t, a, request("n"), driver.ErrUnavailable, driver.ErrUncertain, driver.ErrHeld)
			nothingLeft(t, c)
		}},
		{"won, no quorum has the fence in time", func(t *testing.T, c cluster, a *client) {
			// The releases are silent too, so it is not known what is left.
			ahead(c, a, func(string) fault { return silent })
			refused(t, a, request("n"), driver.ErrUncertain, driver.ErrHeld)
			a.heal()
			nothingLeft(t, c)
		}},
		{"won, the context ends: its error", func(t *testing.T, c cluster, a *client) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ahead(c, a, func(op string) fault {
				if op == "raise" {
					cancel()
					return slow(5 * time.Millisecond)
				}
				return fault{}
			})
			_, err := a.Acquire(ctx, request("n"))
			wantErr(t, err, context.Canceled, driver.ErrHeld)
			nothingLeft(t, c)
		}},
	})
}

// refusing is a member whose Acquire always returns err.
type refusing struct {
	*memstore.Store
	err error
}

func (r *refusing) Acquire(context.Context, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, r.err
}

// The last row of both tables: a member returns ErrInvalid or ErrUnsupported.
func TestARefusalEndsTheTry(t *testing.T) {
	for _, want := range []error{driver.ErrInvalid, errors.ErrUnsupported} {
		bubble(t, 2, func(t *testing.T, c cluster, open func() *client) {
			others := open().links
			for _, l := range others {
				l.next("acquire", slow(20*time.Millisecond)) // later than the refusal, which has to wait for them
			}
			s, err := quorum.New(quorum.Majority, []driver.Store{others[0], &refusing{memstore.New(), want}, others[1]})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			refused(t, s, request("n"), want, driver.ErrHeld, driver.ErrUncertain)
			nothingLeft(t, c)
		})
	}
}

func TestAnswersThatAreAskedForAgain(t *testing.T) {
	testEdges(t, []edge{
		{"held, and this try has the first member: asked again", func(t *testing.T, c cluster, a *client) {
			rivals := []driver.Request{request("n"), request("n")}
			for i, r := range rivals {
				take(t, c[i+1].now(), r)
				time.AfterFunc(5*time.Millisecond, func() { c[i+1].now().Release(t.Context(), "n", r.Token.Text(), 0) })
			}
			take(t, a, request("n"))
			if n := a.links[1].count("acquire"); n < 2 {
				t.Errorf("member 2 was asked %d times", n)
			}
		}},
		{"leftover: asked again", func(t *testing.T, c cluster, a *client) {
			spent := leaves(t, a)
			pass(250 * time.Millisecond)
			r := request("n")
			r.Holder, r.Spent = spent.Holder, []driver.Token{spent.Token}
			take(t, a, r)
			pass(time.Second)
		}},
		{"unsure and early: asked again", func(t *testing.T, c cluster, a *client) {
			a.links[0].next("acquire", lostReply)
			a.links[1].next("acquire", lostReply)
			take(t, a, request("n"))
		}},
	})
}

func TestAnswersThatStand(t *testing.T) {
	testEdges(t, []edge{
		{"held, and a rival has the first member: a refusal", func(t *testing.T, c cluster, a *client) {
			take(t, c[0].now(), request("n"))
			take(t, c[1].now(), request("n"))
			refused(t, a, request("n"), driver.ErrHeld)
			if n := a.links[1].count("acquire"); n != 1 {
				t.Errorf("member 2 was asked %d times", n)
			}
		}},
		{"never: out of the vote", func(t *testing.T, c cluster, a *client) {
			a.these(down, 2, 3)
			refused(t, a, request("n"), driver.ErrUnavailable)
			if n := a.links[1].count("acquire"); n != 1 {
				t.Errorf("member 2 was asked %d times", n)
			}
		}},
		{"busy: out of the vote", func(t *testing.T, c cluster, a *client) {
			r := request("n")
			take(t, a, r)
			a.links[2].next("release", late(400*time.Millisecond))
			wantOutcome(t, a, r, driver.OutcomeReleased)
			asked := a.links[2].count("acquire")
			take(t, a, r)
			if n := a.links[2].count("acquire"); n != asked {
				t.Error("member 3 was asked while a release of the token may still arrive there")
			}
			pass(3 * time.Second)
			wantLive(t, a, r)
		}},
		{"gone: a refusal of a swap", func(t *testing.T, c cluster, a *client) {
			r := request("n")
			take(t, a, r)
			pass(time.Millisecond)
			c[0].restart()
			c[1].restart()
			refused(t, a, swap(r), driver.ErrLost, driver.ErrHeld, driver.ErrUncertain)
		}},
	})
}

// Answers that come after the vote is won. Soon every member must have the hold.
func TestAnswersAfterTheVoteIsWon(t *testing.T) {
	onAll := func(t *testing.T, c cluster, s driver.Store, r driver.Request) {
		t.Helper()
		g := take(t, s, r)
		pass(3 * time.Second)
		wantHolders(t, c, "n", 1, 2, 3)
		for i, srv := range c {
			if _, err := srv.now().Extend(t.Context(), "n", r.Token.Text(), 0); err != nil {
				t.Errorf("member %d: %v", i+1, err)
			}
		}
		if n := c.atLeast("n", g.Fence); n != 3 {
			t.Errorf("%d members have the fence", n)
		}
	}
	testEdges(t, []edge{
		{"yes: has the fence", func(t *testing.T, c cluster, a *client) {
			c[0].clock.ahead.Store(int64(time.Hour))
			a.links[2].next("acquire", slow(100*time.Millisecond))
			onAll(t, c, a, request("n"))
		}},
		{"held: mended", func(t *testing.T, c cluster, a *client) {
			rival := request("n")
			take(t, c[2].now(), rival)
			a.links[2].next("acquire", slow(10*time.Millisecond))
			time.AfterFunc(12*time.Millisecond, func() { c[2].now().Release(t.Context(), "n", rival.Token.Text(), 0) })
			onAll(t, c, a, request("n"))
		}},
		{"leftover: mended", func(t *testing.T, c cluster, a *client) {
			spent := request("n")
			a.these(down, 1, 2)
			a.links[2].next("acquire", slow(700*time.Millisecond))
			refused(t, a, spent, driver.ErrUncertain)
			a.heal()
			pass(440 * time.Millisecond) // the member releases the old hold a little later
			wantHolders(t, c, "n", 3)
			r := request("n")
			r.Holder, r.Spent = spent.Holder, []driver.Token{spent.Token}
			a.links[2].next("acquire", slow(10*time.Millisecond))
			onAll(t, c, a, r)
		}},
		{"unsure: mended", func(t *testing.T, c cluster, a *client) {
			a.links[2].next("acquire", silent)
			onAll(t, c, a, request("n"))
		}},
		{"gone: mended", func(t *testing.T, c cluster, a *client) {
			r := request("n")
			take(t, a, r)
			pass(time.Millisecond)
			c[2].restart()
			a.links[2].next("acquire", slow(10*time.Millisecond))
			onAll(t, c, a, swap(r))
		}},
	})
}

// Grants that come when the vote is lost are released.
func TestAnswersAfterTheVoteIsLost(t *testing.T) {
	testEdges(t, []edge{
		{"yes: released", func(t *testing.T, c cluster, a *client) {
			a.these(down, 1, 2)
			a.links[2].next("acquire", slow(50*time.Millisecond))
			refused(t, a, request("n"), driver.ErrUnavailable, driver.ErrHeld)
			nothingLeft(t, c)
		}},
		{"unsure: released when it has arrived", func(t *testing.T, c cluster, a *client) {
			a.these(down, 1, 2)
			a.links[2].next("acquire", late(300*time.Millisecond))
			refused(t, a, request("n"), driver.ErrUncertain, driver.ErrHeld)
			a.heal()
			nothingLeft(t, c)
		}},
	})
}
