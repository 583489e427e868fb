package facetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A crowd is many processes of one server, which is out of reach from down to up. A request takes a
// while.
type crowd struct {
	server    *memstore.Store
	processes []*remote
	lockers   []*padlock.Locker
	down, up  time.Time
}

const crowdOf, wayOfCrowd = 100, 200 * time.Microsecond

// withCrowd runs f in a bubble. Processes that poll have a store that wakes nobody.
func withCrowd(t *testing.T, polls bool, f func(t *testing.T, c *crowd)) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{server: memstore.New()}
		for range crowdOf {
			r := connect(c.server)
			for _, op := range []string{"acquire", "wait", "extend", "release"} {
				r.request(op, func(ctx context.Context, _ int) error {
					if err := sleep(ctx, wayOfCrowd); err != nil {
						return err
					}
					if now := time.Now(); now.After(c.down) && now.Before(c.up) {
						return driver.ErrUnavailable
					}
					return nil
				})
			}
			c.processes = append(c.processes, r)
			if polls {
				c.lockers = append(c.lockers, newLocker(t, bare{r}))
			} else {
				c.lockers = append(c.lockers, newLocker(t, r))
			}
		}
		f(t, c)
	})
}

// requests returns how many requests there were, how many of them were releases, and how many came
// in the busiest span, from one time to another.
func (c *crowd) requests(span time.Duration, from, to time.Time) (n, releases, busiest int) {
	in := map[time.Duration]int{}
	for _, r := range c.processes {
		for _, call := range r.log() {
			if call.at.Before(from) || !call.at.Before(to) {
				continue
			}
			i := call.at.Sub(from) / span
			in[i]++
			n, busiest = n+1, max(busiest, in[i])
			if call.op == "release" {
				releases++
			}
		}
	}
	return n, releases, busiest
}

// takeInTurn lets each process take one lock over and over, until the time is over or it has had it
// often enough. The processes begin one after the other, all within spread. It returns the longest
// wait.
func (c *crowd) takeInTurn(t *testing.T, takes int, spread, lasts time.Duration) (longest time.Duration) {
	var all sync.WaitGroup
	var mu sync.Mutex
	end := time.Now().Add(lasts)
	for n, l := range c.lockers {
		all.Go(func() {
			<-time.After(spread * time.Duration(n) / crowdOf)
			for i := 0; i < takes && time.Now().Before(end); i++ {
				begun := time.Now()
				err := l.Do(context.Background(), "job", func(ctx context.Context) error { return sleep(ctx, 100*time.Microsecond) }, padlock.Wait(time.Minute))
				mu.Lock()
				longest = max(longest, time.Since(begun))
				mu.Unlock()
				if err != nil {
					<-time.After(rand.N(time.Second)) // as a program does
				}
				if err != nil && c.up.IsZero() {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return longest
}

// In a queue, a grant costs four requests however many processes wait: a try, a place, the claim
// and the release. First come, first served: a process waits until each other has had the lock
// once.
func TestCrowdInAQueue(t *testing.T) {
	withCrowd(t, false, func(t *testing.T, c *crowd) {
		const takes = 10
		start := time.Now()
		longest := c.takeInTurn(t, takes, time.Millisecond, time.Minute)
		took := time.Since(start)
		n, _, _ := c.requests(time.Second, start, time.Now())
		if grant := float64(n) / (crowdOf * takes); grant > 4.2 {
			t.Errorf("%.2f requests for a grant", grant)
		}
		if most := took / takes * 12 / 10; longest > most {
			t.Errorf("a process waited %v, want at most %v: a turn of all others", longest, most)
		}
	})
}

// Without a queue, a grant costs four requests among a hundred processes: most of them of waiters
// that try again. After an outage of the server, they come again over time, and not all at once.
func TestCrowdThatPolls(t *testing.T) {
	withCrowd(t, true, func(t *testing.T, c *crowd) {
		start := time.Now()
		c.down, c.up = start.Add(3*time.Second), start.Add(6*time.Second)
		c.takeInTurn(t, 1<<30, time.Second, 20*time.Second)
		n, releases, before := c.requests(time.Second, start.Add(time.Second), c.down) // all have come by then
		_, _, after := c.requests(time.Second, c.up, time.Now())
		_, _, meanwhile := c.requests(time.Second, c.down, c.up)
		if grant := float64(n) / float64(releases); grant > 4 {
			t.Errorf("%.2f requests for a grant", grant)
		}
		if after > 4*before || meanwhile > crowdOf*15/2 {
			t.Errorf("%d requests in a second before, %d while the server is down, and %d after it", before, meanwhile, after)
		}
	})
}

// All processes take their locks in the same instant. Their renewals do not stay together, not even
// if they fail together, and no lock is lost.
func TestCrowdThatRenews(t *testing.T) {
	withCrowd(t, false, func(t *testing.T, c *crowd) {
		start := time.Now()
		c.down, c.up = start.Add(12*time.Second), start.Add(15*time.Second)
		const each = 5
		for p, l := range c.lockers {
			for i := range each {
				go func() {
					if _, err := l.Acquire(context.Background(), fmt.Sprint(p, "-", i)); err != nil {
						t.Error(err)
					}
				}()
			}
		}
		<-time.After(40 * time.Second)
		for _, from := range []time.Time{start.Add(time.Second), c.up} {
			if n, _, most := c.requests(100*time.Millisecond, from, time.Now()); n < crowdOf || most > crowdOf*each/4 {
				t.Errorf("%d of %d renewals within 100 ms", most, n)
			}
		}
		for _, l := range c.lockers {
			if s := l.Stats(); s.Held != each || s.Lost > 0 {
				t.Fatalf("%+v", s)
			}
		}
	})
}
