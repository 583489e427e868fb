package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// guaranteed returns the guarantees of a quorum with one member for each function in changes. The
// function changes the guarantees of its member.
func guaranteed(t *testing.T, rule quorum.Rule, changes ...func(*driver.Guarantees)) driver.Guarantees {
	t.Helper()
	var stores []driver.Store
	for _, change := range changes {
		m := memstore.New()
		g := m.Guarantees()
		change(&g)
		stores = append(stores, &promising{m, g})
	}
	s, err := quorum.New(rule, stores)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Guarantees()
}

// promising is a memstore with other guarantees.
type promising struct {
	*memstore.Store
	g driver.Guarantees
}

func (p *promising) Guarantees() driver.Guarantees { return p.g }

func TestGuarantees(t *testing.T) {
	same := func(*driver.Guarantees) {}
	strong := func(g *driver.Guarantees) {
		g.SurvivesRestart, g.SurvivesFailover, g.LossDelay = driver.PromiseYes, driver.PromiseYes, time.Second
		g.MinTTL, g.MaxTTL = time.Second, time.Hour
		g.MaxName, g.MaxLabel, g.DeadWaiter = 99, 98, time.Second
	}
	g := guaranteed(t, quorum.Majority, strong, strong, strong)
	if g.SurvivesRestart != driver.PromiseYes || g.LossDelay != time.Second || g.MinTTL != time.Second || g.MaxTTL != time.Hour {
		t.Errorf("three alike: %+v", g)
	}
	if g.FIFO || g.InProcess || !g.Lease || !g.Shared || !g.CoolDown || g.Fence != driver.FenceDurable || g.Promotion != driver.PromotionNone {
		t.Errorf("three alike: %+v", g)
	}
	if g.MaxName != 99 || g.MaxLabel != 98 || g.DeadWaiter != time.Second {
		t.Errorf("three alike: %+v", g)
	}
	if g = guaranteed(t, quorum.Majority, same, strong, same); g.MaxName != 99 || g.MaxLabel != 98 || g.DeadWaiter != time.Second {
		t.Errorf("one is narrower: %+v", g)
	}
	if g = guaranteed(t, quorum.Majority, strong, strong, same); g.SurvivesRestart != driver.PromiseNo || g.MinTTL != time.Second {
		t.Errorf("one forgets: %+v", g)
	}
	unshared := func(g *driver.Guarantees) { g.Shared, g.CoolDown = false, false }
	if g = guaranteed(t, quorum.Majority, strong, same, unshared); g.Shared || g.CoolDown {
		t.Errorf("one cannot: %+v", g)
	}
	bound := func(g *driver.Guarantees) { g.Bound, g.Lease = driver.BoundToProcess, false }
	if g = guaranteed(t, quorum.Majority, same, same, bound); g.Bound != driver.BoundToProcess || !g.Lease {
		t.Errorf("one without leases: %+v", g)
	}
	if g = guaranteed(t, quorum.Majority, same, bound, bound); g.Lease {
		t.Errorf("two without leases: %+v", g)
	}
	observed := func(g *driver.Guarantees) { g.Observed = true }
	if g = guaranteed(t, quorum.Majority, same, same, observed); g.Observed {
		t.Errorf("two with a common clock: %+v", g)
	}
	if g = guaranteed(t, quorum.Majority, same, observed, observed); !g.Observed {
		t.Errorf("two without a common clock: %+v", g)
	}
	if g = guaranteed(t, quorum.All, same, bound); g.Lease || g.Store != "all" {
		t.Errorf("all, one without leases: %+v", g)
	}
}

// One clock jumps. Then a second holder can get a majority if the number of members is odd. If the
// number is even, or if all members are needed, a second holder cannot get a quorum.
func TestClockJumps(t *testing.T) {
	same, jumps := func(*driver.Guarantees) {}, func(g *driver.Guarantees) { g.SafeClockJump = driver.PromiseNo }
	for _, k := range []struct {
		rule    quorum.Rule
		members []func(*driver.Guarantees)
		want    driver.Promise
	}{
		{quorum.Majority, []func(*driver.Guarantees){same, same, same}, driver.PromiseYes},
		{quorum.Majority, []func(*driver.Guarantees){same, same, jumps}, driver.PromiseNo},
		{quorum.Majority, []func(*driver.Guarantees){same, same, same, jumps}, driver.PromiseYes},
		{quorum.Majority, []func(*driver.Guarantees){same, same, jumps, jumps}, driver.PromiseNo},
		{quorum.All, []func(*driver.Guarantees){same, jumps}, driver.PromiseYes},
		{quorum.All, []func(*driver.Guarantees){jumps, jumps}, driver.PromiseNo},
	} {
		if g := guaranteed(t, k.rule, k.members...); g.SafeClockJump != k.want {
			t.Errorf("%v of %d: %v, want %v", k.rule, len(k.members), g.SafeClockJump, k.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	same := func(*driver.Guarantees) {}
	for n, want := range map[int]string{1: "Warning: with 1 ", 2: "Warning: with 2 ", 3: "", 4: "Warning: 4 members survive no more losses than 3", 5: ""} {
		notes := strings.Join(guaranteed(t, quorum.Majority, make5(same)[:n]...).Notes, "\n")
		if want == "" && strings.Contains(notes, "Warning") || !strings.Contains(notes, want) {
			t.Errorf("%d members: %s", n, notes)
		}
	}
	if notes := strings.Join(guaranteed(t, quorum.All, same, same).Notes, "\n"); strings.Contains(notes, "Warning") {
		t.Errorf("all of two: %s", notes)
	}
}

func make5(f func(*driver.Guarantees)) []func(*driver.Guarantees) {
	return []func(*driver.Guarantees){f, f, f, f, f}
}

// connected is a memstore whose holds have no lease and end with a connection.
type connected struct {
	*memstore.Store
	conn context.Context
	cut  context.CancelCauseFunc
	late <-chan struct{} // if not nil, Acquire returns after it is closed
}

func connect() *connected {
	c := &connected{Store: memstore.New(memstore.MaxTTL(time.Hour))}
	c.conn, c.cut = context.WithCancelCause(context.Background())
	return c
}

func (c *connected) Guarantees() driver.Guarantees {
	g := c.Store.Guarantees()
	g.Bound, g.Lease = driver.BoundToConnection, false
	return g
}

func (c *connected) bound(g driver.Grant, err error) (driver.Grant, error) {
	if err != nil {
		return g, err
	}
	return driver.Grant{Fence: g.Fence, Bound: c.conn}, nil
}

func (c *connected) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	r.TTL = time.Hour
	g, err := c.bound(c.Store.Acquire(ctx, r))
	if c.late != nil {
		<-c.late
	}
	return g, err
}

func (c *connected) Extend(ctx context.Context, name, token string, _ time.Duration) (driver.Grant, error) {
	return c.bound(c.Store.Extend(ctx, name, token, 0))
}

// A hold ends when so many connections have ended that no quorum is left. The lease of the hold is
// the shortest lease among the members that are needed.
func TestMembersBoundToConnections(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c cluster, _ func() *client) {
		bound := []*connected{connect(), connect(), connect()}
		s, err := quorum.New(quorum.Majority, []driver.Store{bound[0], bound[1], bound[2]})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := request("n")
		g := take(t, s, r)
		if g.TTL != 0 || g.Bound == nil {
			t.Fatalf("granted %+v", g)
		}
		pass(time.Millisecond)
		why := errors.New("cut")
		bound[1].cut(why)
		pass(time.Millisecond)
		if g.Bound.Err() != nil {
			t.Error("the hold ended with one of three")
		}
		bound[2].cut(why)
		pass(time.Millisecond)
		if context.Cause(g.Bound) != why {
			t.Errorf("the hold ended because of %v", context.Cause(g.Bound))
		}
		if _, err := s.Acquire(t.Context(), swap(r)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a hand-over of bound holds: %v", err)
		}

		mixed, err := quorum.New(quorum.Majority, []driver.Store{connect(), memstore.New(), memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer mixed.Close()
		if g := take(t, mixed, request("n")); g.TTL != request("").TTL || g.Bound != nil && g.Bound.Err() != nil {
			t.Errorf("granted %+v", g)
		}
	})
}
