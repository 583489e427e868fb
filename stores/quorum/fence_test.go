package quorum_test

import (
	"context"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// T-RL4: the greatest fence comes from a member that the next quorum does not contain.
func TestFencesOfSuccessiveQuorums(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		a.these(down, 4, 5)
		b.these(down, 1, 2)
		c[0].clock.ahead.Store(int64(time.Hour))
		last := uint64(0)
		for range 3 {
			for _, cl := range []*client{a, b} {
				r := request("n")
				g := take(t, cl, r)
				safety.Rises(t, g.Fence, last)
				last = g.Fence
				wantOutcome(t, cl, r, driver.OutcomeReleased)
				pass(time.Millisecond)
			}
		}
	})
}

// Acquire returns when the fence is written to a quorum. If no quorum can be reached for that
// write, Acquire fails.
func TestFenceIsWrittenBackBeforeTheGrant(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a := open()
		c[0].clock.ahead.Store(int64(time.Hour))
		for i, l := range a.links[1:4] {
			l.set(func(op string) fault {
				if op == "raise" {
					return down
				}
				return slow([]time.Duration{1, 50, 50}[i] * time.Millisecond) // members 1, 2 and 5 decide
			})
		}
		_, err := a.Acquire(t.Context(), request("n"))
		wantErr(t, err, driver.ErrUnavailable, driver.ErrUncertain)
		pass(time.Second)
		wantHolders(t, c, "n")

		a.heal()
		for _, l := range a.links[1:] {
			l.next("acquire", slow(time.Millisecond))
		}
		a.links[1].set(func(op string) fault {
			if op == "raise" {
				return silent
			}
			return slow(time.Millisecond)
		})
		r := request("n")
		g := take(t, a, r)
		if n := c.atLeast("n", g.Fence); n < 3 {
			t.Errorf("%d members have the fence", n)
		}
		// A member that answers late gets the fence, too.
		wantOutcome(t, a, r, driver.OutcomeReleased)
		pass(time.Second)
		a.links[1].heal()
		a.links[4].next("acquire", slow(100*time.Millisecond))
		g = take(t, a, request("n"))
		pass(time.Second)
		if n := c.atLeast("n", g.Fence); n != 5 {
			t.Errorf("%d members have the fence", n)
		}
	})
}

// atLeast returns the number of members whose fence for name is not smaller than the given one.
func (c cluster) atLeast(name string, fence uint64) (n int) {
	for _, srv := range c {
		if s, _ := srv.now().Inspect(context.Background(), name); s.Fence >= fence {
			n++
		}
	}
	return n
}

func TestReadersAndWritersFences(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		a.these(down, 4, 5)
		b.these(down, 1, 2)
		c[1].clock.ahead.Store(int64(time.Hour))
		w, r := request("n"), reader("n")
		first := take(t, a, w)
		wantOutcome(t, a, w, driver.OutcomeReleased)
		reading := take(t, b, r)
		beside := reader("n")
		beside.FenceAbove = reading.Fence + 1000
		above := take(t, b, beside)
		wantOutcome(t, b, r, driver.OutcomeReleased)
		wantOutcome(t, b, beside, driver.OutcomeReleased)
		second := take(t, a, request("n"))
		if !safety.Keeps(t, reading.Fence, first.Fence) || !safety.Rises(t, above.Fence, beside.FenceAbove) || !safety.Rises(t, second.Fence, above.Fence) {
			t.Errorf("writer %d, reader %d, reader above %d, writer %d", first.Fence, reading.Fence, above.Fence, second.Fence)
		}
	})
}

func TestWithoutFences(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, _ func() *client) {
		a := c.client(t, quorum.Majority, quorum.NoFences())
		defer a.Close()
		if g := take(t, a, request("n")); g.Fence != 0 {
			t.Errorf("the grant has fence %d", g.Fence)
		}
		pass(time.Second)
		for i, l := range a.links {
			if n := l.count("raise"); n != 0 {
				t.Errorf("member %d was sent %d fences", i+1, n)
			}
		}
	})
}

// plain is a memstore with other guarantees and without optional abilities.
type plain struct {
	driver.Store
	g driver.Guarantees
}

func (p *plain) Guarantees() driver.Guarantees { return p.g }

func withFence(f driver.Fence) driver.Store {
	s := memstore.New()
	g := s.Guarantees()
	g.Fence = f
	return &plain{s, g}
}

func TestWhatIsRefused(t *testing.T) {
	m := memstore.New()
	long, short := m.Guarantees(), m.Guarantees()
	long.MinTTL, short.MaxTTL = time.Hour, time.Minute
	for name, k := range map[string]struct {
		rule   quorum.Rule
		stores []driver.Store
		opts   []quorum.Option
		ok     bool
	}{
		"three":              {quorum.Majority, []driver.Store{m, memstore.New(), memstore.New()}, nil, true},
		"two":                {quorum.Majority, []driver.Store{m, memstore.New()}, nil, true},
		"all of one":         {quorum.All, []driver.Store{m}, nil, true},
		"none":               {quorum.Majority, nil, nil, false},
		"nil":                {quorum.Majority, []driver.Store{m, nil}, nil, false},
		"twice":              {quorum.Majority, []driver.Store{m, memstore.New(), m}, nil, false},
		"two handles on one": {quorum.Majority, []driver.Store{m, memstore.New(), m.Open()}, nil, false},
		"no such rule":       {quorum.Rule(7), []driver.Store{m}, nil, false},
		"session fences":     {quorum.Majority, []driver.Store{m, withFence(driver.FenceSession)}, nil, false},
		"no fences":          {quorum.Majority, []driver.Store{m, withFence(driver.FenceNone)}, nil, false},
		"cannot raise":       {quorum.Majority, []driver.Store{m, withFence(driver.FenceDurable)}, nil, false},
		"fences off":         {quorum.Majority, []driver.Store{m, withFence(driver.FenceNone)}, []quorum.Option{quorum.NoFences()}, true},
		"too impatient":      {quorum.Majority, []driver.Store{m}, []quorum.Option{quorum.MemberTimeout(time.Microsecond)}, false},
		"too patient":        {quorum.Majority, []driver.Store{m}, []quorum.Option{quorum.MemberTimeout(time.Minute)}, false},
		"no lease in common": {quorum.Majority, []driver.Store{&plain{m, long}, &plain{memstore.New(), short}}, []quorum.Option{quorum.NoFences()}, false},
	} {
		s, err := quorum.New(k.rule, k.stores, k.opts...)
		switch {
		case k.ok && err != nil:
			t.Errorf("%s: %v", name, err)
		case k.ok:
			s.Close()
		default:
			wantErr(t, err, driver.ErrInvalid)
		}
	}
}
