package quorum_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	tiers "github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/quorum"
)

// stay is a time during which a client believed that it held the name. It lies within the client's
// own window, and ends when the client begins to release the hold or learns that it is lost.
type stay struct {
	who        int
	shared     bool
	fence      uint64
	began, end time.Time
}

// referee collects stays and judges them when all are over.
type referee struct {
	mu     sync.Mutex
	stays  []stay
	faults []string
	counts map[string]int
}

func (f *referee) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what]++
}

func (f *referee) blame(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

func (f *referee) note(s stay) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stays = append(f.stays, s)
}

// judge looks for clients that were inside at once, and for fences out of order. A writer's fence
// must be above all earlier fences. A reader's fence must not be below an earlier writer's.
func (f *referee) judge() []string {
	slices.SortStableFunc(f.stays, func(a, b stay) int { // the bubble's time may stand still
		return cmp.Or(a.began.Compare(b.began), cmp.Compare(a.fence, b.fence))
	})
	for i, a := range f.stays {
		for _, b := range f.stays[i+1:] {
			if a.shared && b.shared || a.who == b.who && a.fence == b.fence {
				continue
			}
			if b.began.Before(a.end) {
				f.blame("client %d came while client %d was inside", b.who, a.who)
			}
			if b.fence < a.fence || b.fence == a.fence && !b.shared {
				f.blame("after fence %d (shared: %v) came %d (shared: %v)", a.fence, a.shared, b.fence, b.shared)
			}
		}
	}
	return f.faults
}

// actor is one client that takes and gives up one name, over and over, the way
// the face does.
type actor struct {
	*client
	who int
	ref *referee
	rnd *rand.Rand
}

const modelTTL = 2 * time.Second

func (a *actor) chance(percent int) bool { return a.rnd.IntN(100) < percent }

func (a *actor) nap(most time.Duration) { <-time.After(time.Duration(a.rnd.Int64N(int64(most)))) }

func (a *actor) act(ctx context.Context) {
	r := request("n")
	r.TTL, r.Shared = modelTTL, a.chance(30)
	if a.chance(20) {
		r.AtLeast = 300 * time.Millisecond
	}
	sent := time.Now()
	g, err := a.Acquire(ctx, r)
	for tries := 0; errors.Is(err, driver.ErrUncertain) && tries < 2; tries++ {
		a.nap(50 * time.Millisecond)
		sent = time.Now()
		g, err = a.Acquire(ctx, r)
	}
	switch {
	case err == nil:
		a.ref.count("grants")
		a.hold(ctx, r, g, sent)
	case errors.Is(err, driver.ErrHeld):
		a.ref.count("refused")
		a.queue(ctx)
	case errors.Is(err, driver.ErrUncertain), errors.Is(err, driver.ErrUnavailable):
		a.ref.count("failures")
		a.Release(ctx, r.Name, r.Token, 0)
	default:
		a.ref.blame("Acquire: %v", err)
	}
	a.nap(20 * time.Millisecond)
}

// queue waits, and uses the hold if Wait hands one over.
func (a *actor) queue(ctx context.Context) {
	r := request("n")
	r.TTL, r.Shared = modelTTL, a.chance(30)
	if g, err := a.Wait(ctx, r, true); err == nil && g.TTL > 0 {
		a.ref.count("hand-overs")
		a.hold(ctx, r, g, time.Now().Add(g.From.Sub(driver.SystemClock().Now())))
	}
}

// hold stays inside for a while, renews, and may change the mode.
func (a *actor) hold(ctx context.Context, r driver.Request, g driver.Grant, sent time.Time) {
	s := stay{a.who, r.Shared, g.Fence, time.Now(), time.Time{}}
	until := sent.Add(g.TTL)
	least := sent.Add(r.AtLeast) // the name stays taken until then, even if the hold is over
	over := func() {
		s.end = earliest(time.Now(), until)
		if !s.shared && !r.Shared && least.After(s.end) {
			s.end = least
		}
		a.ref.note(s)
	}
	for a.chance(60) && time.Now().Before(until) {
		a.nap(400 * time.Millisecond)
		sent := time.Now()
		if !s.shared && r.AtLeast == 0 && a.chance(20) {
			over() // readers may come in from now on
			if !a.demote(ctx, r, &s) {
				break
			}
		} else if s.shared && a.chance(30) {
			request := r
			request.Shared = false
			if g, err := a.Convert(ctx, request); err == nil {
				a.ref.count("promotions")
				over()
				s.shared, s.fence, s.began = false, g.Fence, time.Now()
			} else if lost(err) {
				break
			}
		}
		g, err := a.Extend(ctx, r.Name, r.Token, r.TTL)
		if lost(err) {
			a.ref.count("losses")
			break
		}
		if end := sent.Add(g.TTL); err == nil && end.After(until) {
			until = end
		}
	}
	over()
	for range 3 {
		if _, err := a.Release(ctx, r.Name, r.Token, 0); err == nil {
			return
		}
		a.nap(50 * time.Millisecond)
	}
}

// demote tries to make the hold of s shared. It returns false if the hold is lost.
func (a *actor) demote(ctx context.Context, r driver.Request, s *stay) bool {
	r.Shared = true
	g, err := a.Convert(ctx, r)
	s.began = time.Now()
	switch {
	case err == nil && g.Fence != s.fence:
		a.ref.blame("a demotion changed fence %d to %d", s.fence, g.Fence)
	case err == nil || errors.Is(err, driver.ErrUncertain):
		a.ref.count("demotions")
		s.shared = true
	}
	return !lost(err)
}

func lost(err error) bool { return errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrExpired) }

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// weather makes the links of a client fail now and then. Each link fails in its own way.
func weather(l *link, rnd *rand.Rand) {
	bad := []fault{
		down, silent, lostCall, lostReply, slow(30 * time.Millisecond), slow(250 * time.Millisecond),
		late(200 * time.Millisecond), late(400 * time.Millisecond), {mute: true}, {after: 200 * time.Millisecond, mute: true},
	}
	sometimes := func(percent int) fault {
		if rnd.IntN(100) < percent {
			return bad[rnd.IntN(len(bad))]
		}
		return fault{}
	}
	var mu sync.Mutex
	var spell fault
	var until time.Time
	l.set(func(string) fault {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.After(until) {
			spell = sometimes(33)
			until = now.Add(time.Duration(rnd.Int64N(int64(time.Second))))
		}
		if f := sometimes(10); f != (fault{}) {
			return f
		}
		return spell
	})
}

// model lets three clients take one name for a while. Requests and replies are lost, late, refused
// or never answered, and the members' clocks are hours apart. At the end the faults stop.
func model(t *testing.T, seed uint64, rule quorum.Rule, members int) map[string]int {
	c := newCluster(members)
	rnd := rand.New(rand.NewPCG(seed, uint64(members)))
	for _, srv := range c {
		srv.clock.ahead.Store(rnd.Int64N(int64(3 * time.Hour)))
	}
	ref := &referee{counts: make(map[string]int)}
	var clients []*client
	var all sync.WaitGroup
	for who := range 3 {
		cl := c.client(t, rule)
		clients = append(clients, cl)
		for _, l := range cl.links {
			weather(l, rand.New(rand.NewPCG(rnd.Uint64(), seed)))
		}
		a := &actor{cl, who, ref, rand.New(rand.NewPCG(rnd.Uint64(), seed))}
		all.Go(func() {
			for began := time.Now(); time.Since(began) < 20*time.Second; {
				a.act(t.Context())
			}
		})
	}
	all.Wait()
	for _, cl := range clients {
		cl.heal()
	}
	pass(modelTTL + time.Second) // nothing may be left by then
	if _, err := clients[0].Acquire(t.Context(), request("n")); err != nil {
		ref.blame("seed %d: in good weather the name is not free: %v", seed, err)
	}
	for _, cl := range clients {
		cl.Close()
	}
	for _, f := range ref.judge() {
		t.Errorf("seed %d, %v of %d: %s", seed, rule, members, f)
	}
	return ref.counts
}

func TestModel(t *testing.T) {
	seeds := uint64(10)
	if tiers.IsThorough() {
		seeds = 40
	}
	total := make(map[string]int)
	for seed := range seeds {
		for _, shape := range shapes {
			synctest.Test(t, func(t *testing.T) {
				for what, n := range model(t, seed, shape.rule, shape.members) {
					total[what] += n
				}
			})
		}
	}
	t.Log(total)
	for _, what := range []string{"grants", "refused", "hand-overs", "failures", "promotions", "demotions"} {
		if total[what] == 0 {
			t.Errorf("the model made no %s", what)
		}
	}
}
