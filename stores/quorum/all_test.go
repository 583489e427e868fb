package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/quorum"
)

// record notes the order of requests to members in log.
func record(cl *client, log *[]string, mu *sync.Mutex) {
	for i, l := range cl.links {
		l.set(func(op string) fault {
			mu.Lock()
			defer mu.Unlock()
			*log = append(*log, fmt.Sprint(op, i+1))
			return fault{}
		})
	}
}

// All takes its members in order and gives them back in reverse.
func TestAllGoesInOrder(t *testing.T) {
	bubbleOf(t, quorum.All, 4, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		var mu sync.Mutex
		var log []string
		record(a, &log, &mu)
		take(t, a, r)
		wantOutcome(t, a, r, driver.OutcomeReleased)
		want := []string{"acquire1", "acquire2", "acquire3", "acquire4", "release4", "release3", "release2", "release1"}
		if !slices.Equal(log, want) {
			t.Errorf("asked in the order %v", log)
		}
		log = nil
		take(t, c[2].now(), request("n"))
		_, err := a.Acquire(t.Context(), request("n"))
		wantErr(t, err, driver.ErrHeld)
		want = []string{"acquire1", "acquire2", "acquire3", "release2", "release1"}
		if !slices.Equal(log, want) {
			t.Errorf("after a refusal, asked in the order %v", log)
		}
	})
}

func TestAllNeedsAll(t *testing.T) {
	bubbleOf(t, quorum.All, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		a.these(down, 3)
		_, err := a.Acquire(t.Context(), request("n"))
		wantErr(t, err, driver.ErrUnavailable, driver.ErrUncertain, driver.ErrHeld)
		wantHolders(t, c, "n")
		a.these(silent, 3)
		_, err = a.Acquire(t.Context(), request("n"))
		wantErr(t, err, driver.ErrUncertain, driver.ErrHeld)
		wantHolders(t, c, "n")
		a.heal()
		pass(3 * time.Second)

		take(t, a, r)
		a.these(silent, 2)
		wantErr(t, extend(t, a, r), driver.ErrUncertain, driver.ErrLost)
		a.heal()
		if err := extend(t, a, r); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		c[1].restart() // the member does not get the hold back: another caller may have had the name there
		wantErr(t, extend(t, a, r), driver.ErrLost)
		wantOutcome(t, a, r, driver.OutcomeGone)

		r = request("n")
		take(t, a, r)
		c[0].clock.ahead.Add(int64(time.Minute))
		wantOutcome(t, a, r, driver.OutcomeExpired)
	})
}

// site is a protected place that notices two at once and a fence that falls.
type site struct {
	mu     sync.Mutex
	inside int
	last   uint64
	faults []error
}

func (p *site) enter(fence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inside++; p.inside > 1 {
		p.faults = append(p.faults, safety.ErrTwoHold("%d are inside", p.inside))
	}
	if err := safety.FenceRises(fence, p.last); err != nil {
		p.faults = append(p.faults, err)
	}
	p.last = fence
}

func (p *site) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside--
}

func (p *site) count(n *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n++
}

// visit makes one try to lock the site in store, and enters the site if the try succeeds.
func visit(ctx context.Context, store driver.Store, p *site) error {
	r := request("job")
	g, err := store.Acquire(ctx, r)
	if err != nil {
		return err
	}
	p.enter(g.Fence)
	<-time.After(time.Millisecond)
	p.leave()
	_, err = store.Release(ctx, r.Name, r.Token.Text(), 0)
	return err
}

// A move from one store to another. Each process uses the old store alone, then both, then the new
// store alone. It changes at a time of its own and under load, while the old store's clock is an
// hour ahead. No two processes overlap, and no fence falls.
func TestMoveFromOneStoreToAnother(t *testing.T) {
	bubble(t, 2, func(t *testing.T, c cluster, _ func() *client) {
		c[0].clock.ahead.Store(int64(time.Hour))
		const workers, stage = 6, 200 * time.Millisecond
		p, began := &site{}, time.Now()
		phases := make([]int, 3)
		errs := together(t, workers, func(ctx context.Context, i int) error {
			old, both, young := c[:1].client(t, quorum.All), c.client(t, quorum.All), c[1:].client(t, quorum.All)
			defer old.Close()
			defer both.Close()
			defer young.Close()
			// The first process drops the old store only after the last one has begun to use the
			// new store.
			mine := time.Duration(i) * stage / (workers + 1)
			for try := 0; ; try++ {
				now := time.Since(began)
				if now > 4*stage {
					return nil
				}
				phase := min(2, max(0, int((now-mine)/stage)))
				err := visit(ctx, []driver.Store{old.links[0], both, young.links[0]}[phase], p)
				switch {
				case err == nil:
					p.count(&phases[phase])
				case !errors.Is(err, driver.ErrHeld):
					return err
				}
				<-time.After(time.Duration(100+(i*37+try*53)%400) * time.Microsecond)
			}
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for _, f := range p.faults {
			t.Error(f)
		}
		if slices.Min(phases) < 20 {
			t.Errorf("visits by phase: %v", phases)
		}
	})
}

// A release does not reach one member. Release returns ErrUncertain while that member may keep the
// name, and succeeds only when the name is free.
func TestReleaseOfAllThatOneMemberMissed(t *testing.T) {
	for name, f := range map[string]fault{"call lost": lostCall, "reply lost": lostReply, "silent": silent} {
		for member := range 2 {
			t.Run(fmt.Sprint(name, " at ", member+1), func(t *testing.T) {
				bubbleOf(t, quorum.All, 2, func(t *testing.T, c cluster, open func() *client) {
					a, r := open(), request("n")
					r.TTL = time.Second // a request takes 50 ms at most
					take(t, a, r)
					a.links[member].next("release", f)
					_, err := a.Release(t.Context(), r.Name, r.Token.Text(), 0)
					wantErr(t, err, driver.ErrUncertain)
					tries := 0
					for ; err != nil; tries++ {
						var out driver.Outcome
						out, err = a.Release(t.Context(), r.Name, r.Token.Text(), 0)
						if err == nil && out != driver.OutcomeGone {
							t.Errorf("a repeat answers %v", out)
						}
						if err == nil {
							wantHolders(t, c, "n")
						}
					}
					if tries > 10 {
						t.Errorf("it took %d repeats", tries)
					}
				})
			})
		}
	}
}

// If a member denies the hold before the release reaches it, the hold was lost, whatever the others
// answer.
func TestReleaseOfAllThatWasLost(t *testing.T) {
	bubbleOf(t, quorum.All, 2, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		c[1].restart()
		a.links[0].always(silent)
		wantOutcome(t, a, r, driver.OutcomeGone)
		a.heal()
	})
}

// The same through the face: a nil error means that the name is free.
func TestFaceReleasesAll(t *testing.T) {
	bubbleOf(t, quorum.All, 2, func(t *testing.T, c cluster, open func() *client) {
		for member := range 2 {
			cl := open()
			lock, err := locker(t, cl).Acquire(t.Context(), "n", padlock.TTL(500*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			cl.links[member].next("release", lostCall)
			if err := lock.Release(); err != nil {
				t.Error(err)
			}
			wantHolders(t, c, "n")
		}
	})
}

// deaf is a member whose Extend does not end with its context.
type deaf struct{ *link }

func (d deaf) Extend(context.Context, string, string, time.Duration) (driver.Grant, error) {
	<-time.After(time.Second)
	return driver.Grant{}, driver.ErrUncertain
}

// An error says "no answer in time" of members only if the quorum has waited for them.
func TestErrorNamesOnlySilentMembers(t *testing.T) {
	const overdue = "no answer in time"
	bubbleOf(t, quorum.All, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		for _, l := range a.links[:2] {
			l.always(slow(time.Millisecond)) // member 3 denies the hold first
		}
		_, err := a.Extend(t.Context(), "n", r.Token.Text(), 0)
		wantErr(t, err, driver.ErrLost)
		if strings.Contains(err.Error(), overdue) {
			t.Errorf("all members answer, the error says: %v", err)
		}
		a.heal()
		s, err := quorum.New(quorum.All, []driver.Store{a.links[0], deaf{a.links[1]}, a.links[2]})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		take(t, s, r)
		_, err = s.Extend(t.Context(), "n", r.Token.Text(), 0)
		wantErr(t, err, driver.ErrUnavailable)
		if strings.Count(err.Error(), overdue) != 1 {
			t.Errorf("one member is silent, the error says: %v", err)
		}
	})
}
