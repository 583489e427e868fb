package quorum_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

func inspect(t *testing.T, s driver.Admin, name string) driver.State {
	t.Helper()
	st, err := s.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestInspect(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), request("n")
		passing := request("n")
		take(t, c[4].now(), passing)
		if s := inspect(t, b, "n"); len(s.Holds) != 0 {
			t.Errorf("a hold on one member was reported: %+v", s)
		}
		until := time.Now().Add(r.TTL)
		g := take(t, a, r)
		pass(time.Millisecond)
		b.these(down, 1)
		b.these(silent, 2)
		s := inspect(t, b, "n")
		i := slices.IndexFunc(s.Holds, func(h driver.Hold) bool { return h.Holder == r.Holder })
		if i < 0 || !s.Holds[i].Until.Equal(until) || !safety.Keeps(t, s.Fence, g.Fence) || s.Waiters != -1 {
			t.Errorf("%+v is held with fence %d; told was %+v", r, g.Fence, s)
		}
		b.these(down, 3)
		_, err := b.Inspect(t.Context(), "n")
		wantErr(t, err, driver.ErrUnavailable)
	})
}

// A member may forget the fence of a free name. Its answer then says nothing about the fences that
// it has minted.
func TestInspectWithForgottenFences(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, c[3].now(), request("n"))
		take(t, c[4].now(), request("n"))
		pass(time.Millisecond)
		g := take(t, a, r)
		wantOutcome(t, a, r, driver.OutcomeReleased) // members 1 to 3 forget the name
		if s := inspect(t, a, "n"); s.Fence != 0 {
			t.Errorf("told was %+v, although no fence is known of three members", s)
		}
		take(t, c[2].now(), request("n"))
		list, err := a.List(t.Context(), "n")
		for _, s := range append(list, inspect(t, a, "n")) {
			if err != nil || !safety.Keeps(t, s.Fence, g.Fence) {
				t.Errorf("after a grant with fence %d told was %+v, %v", g.Fence, s, err)
			}
		}
	})
}

// Under All the holder of any one member is in the way, so Inspect reports it: during a move, a
// process may still use the old store alone.
func TestInspectUnderAll(t *testing.T) {
	bubbleOf(t, quorum.All, 2, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, c[0].now(), r)
		if s := inspect(t, a, "n"); len(s.Holds) != 1 || s.Holds[0].Holder != r.Holder {
			t.Errorf("told was %+v", s)
		}
	})
}

func TestList(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a := open()
		for _, name := range []string{"x/1", "x/2", "y/1"} {
			take(t, a, request(name))
		}
		take(t, c[2].now(), request("x/only-one-member"))
		pass(time.Millisecond)
		a.these(down, 1)
		list, err := a.List(t.Context(), "x/")
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		slices.Sort(names)
		// While a member is out of reach, a hold that only one member reports may have a quorum, so
		// it is listed.
		if want := []string{"x/1", "x/2", "x/only-one-member"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("listed %v: %v", names, err)
		}
		a.heal()
		if list, err = a.List(t.Context(), "x/"); err != nil || len(list) != 2 {
			t.Errorf("listed %v: %v", list, err)
		}
	})
}

func TestBreak(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), request("n")
		c[0].clock.ahead.Store(int64(time.Second))
		g := take(t, a, r)
		pass(2 * time.Second)
		seen := inspect(t, b, "n").Fence
		_, err := b.Break(t.Context(), "n", seen-1)
		wantErr(t, err, driver.ErrLost)
		wantLive(t, a, r)

		b.these(down, 1, 2)
		seen = inspect(t, b, "n").Fence
		fence, err := b.Break(t.Context(), "n", seen)
		if err != nil || !safety.Rises(t, fence, g.Fence) {
			t.Fatal(err)
		}
		wantErr(t, extend(t, a, r), driver.ErrLost)
		pass(time.Second)
		wantHolders(t, c, "n", 1, 2) // their holds lapse
		safety.Rises(t, take(t, b, request("n")).Fence, fence)

		// Too few members can be asked, or too few carry out the request.
		pass(time.Minute)
		r = request("m")
		b.heal()
		take(t, a, r)
		pass(time.Millisecond)
		seen = inspect(t, b, "m").Fence
		b.links[0].next("break", silent)
		b.links[1].next("break", down)
		b.links[2].next("break", lostReply)
		_, err = b.Break(t.Context(), "m", seen)
		wantErr(t, err, driver.ErrUncertain)
		b.these(down, 1, 2, 3)
		_, err = b.Break(t.Context(), "m", seen)
		wantErr(t, err, driver.ErrUnavailable)
	})
}

// reporting is a store that can say how its server is.
type reporting struct {
	*memstore.Store
	found []driver.Finding
	err   error
}

func (r *reporting) Status(context.Context) ([]driver.Finding, error) { return r.found, r.err }

func TestStatus(t *testing.T) { synctest.Test(t, status) }

func status(t *testing.T) {
	ok := []driver.Finding{{Name: "uptime", Value: "1 s", Advice: "wait"}}
	s, err := quorum.New(quorum.Majority, []driver.Store{
		&reporting{memstore.New(), ok, nil}, &reporting{memstore.New(), nil, driver.ErrUnavailable}, memstore.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"member 1 (memory)=reached", "member 1 (memory): uptime=1 s", "member 2 (memory)=not reached", "member 3 (memory)=unknown"}
	var got []string
	for _, f := range found {
		got = append(got, f.Name+"="+f.Value)
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v", got)
	}
	down, err := quorum.New(quorum.Majority, []driver.Store{&reporting{memstore.New(), nil, errors.New("no route")}})
	if err != nil {
		t.Fatal(err)
	}
	defer down.Close()
	_, err = down.Status(t.Context())
	wantErr(t, err, driver.ErrUnavailable)
	if !strings.Contains(err.Error(), "no route") {
		t.Errorf("the error does not say why: %v", err)
	}
}

// A Break may end what one member has granted to an Acquire that waits for the others. Then the
// Acquire fails, or does without that member. A Break that comes after the grant breaks nothing.
func TestBreakDuringAnAcquire(t *testing.T) {
	for _, test := range []struct {
		name  string
		ahead int           // the member with the greatest fence
		held  []int         // until the Break ends it: the Acquire is under way during both looks
		after time.Duration // how long the Break is on its way
		wins  bool
	}{
		{"prompt", 1, nil, 0, true}, {"before another lock", 2, []int{2, 3}, 0, true},
		{"before the grant", 1, []int{2}, 0, false}, {"after the grant", 1, []int{2}, 200 * time.Millisecond, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
				a, b, d := open(), open(), open()
				c[test.ahead-1].clock.ahead.Store(int64(time.Hour))
				b.these(slow(10*time.Millisecond), 2)
				a.links[0].next("break", slow(test.after))
				foreign := map[int]driver.Request{}
				for _, m := range test.held {
					foreign[m] = request("n")
					take(t, c[m-1].now(), foreign[m])
				}
				if len(test.held) < 2 {
					b.these(down, 3)
				}
				granted := make(chan reply[driver.Grant])
				go func() {
					g, err := b.Acquire(t.Context(), request("n"))
					granted <- reply[driver.Grant]{g, err}
				}()
				pass(time.Millisecond)
				a.Break(t.Context(), "n", inspect(t, a, "n").Fence)
				var before driver.Grant
				if len(test.held) == 2 { // member 2 has the greatest fence, and was not asked
					wantOutcome(t, c[1].now(), foreign[2], driver.OutcomeReleased)
					d.these(down, 3)
					r := request("n")
					before = take(t, d, r)
					wantOutcome(t, d, r, driver.OutcomeReleased)
				}
				got := <-granted
				pass(time.Second)
				_, err := d.Acquire(t.Context(), request("n"))
				if (got.err == nil) != test.wins || (err == nil) == test.wins || test.wins && !safety.Rises(t, got.v.Fence, before.Fence) {
					t.Errorf("the Acquire under way: %+v, the lock before: %+v, a later Acquire: %v", got, before, err)
				}
			})
		})
	}
}

// A Break ends no lock that has a greater fence than the one that it names. Here a reader joins a
// hold of member 1 that some process has left, after the Break has looked, and member 1 has the
// greatest fence. So the reader gets that fence, and needs member 1.
func TestBreakBesideANewReader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b, d := open(), open(), open()
		c[0].clock.ahead.Store(int64(time.Hour))
		take(t, c[0].now(), reader("n"))
		b.these(down, 1)
		take(t, b, reader("n"))
		for i := range a.links {
			a.links[i].next("break", slow(100*time.Millisecond))
		}
		broken := make(chan error)
		go func() {
			_, err := a.Break(t.Context(), "n", inspect(t, a, "n").Fence)
			broken <- err
		}()
		pass(550 * time.Millisecond)
		d.these(down, 3)
		r := reader("n")
		take(t, d, r)
		wantErr(t, <-broken, driver.ErrUncertain)
		d.heal()
		wantLive(t, d, r)
		wantErr(t, errOf(a.Acquire(t.Context(), request("n"))), driver.ErrHeld)
	})
}
