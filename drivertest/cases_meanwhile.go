package drivertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var meanwhileCases = []testCase{
	{
		name:   "wait/release-meanwhile",
		clause: "A Wait misses no release, whenever it comes: also not one between a look at the name and the moment from which the store wakes the waiter, with reserve and without it.",
		alone:  true, // another case that closes a store may wake what has missed its release
		f:      releasesMeanwhile,
	},
}

// releasesMeanwhile releases many names, each at another moment of a Wait for it, until a Wait misses
// its release. A slow machine is not the reason if others that begin later return meanwhile.
func releasesMeanwhile(c *check) {
	trip, limit := c.wakes()
	workers, rounds := 8, 40
	switch {
	case c.g.InProcess:
		workers, rounds = 64, 20
		defer c.askedByMany()()
	case c.h.Slow:
		rounds = 10
	}
	missed := make(chan *testWaiter, workers)
	failed := make(chan error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := 0; i < rounds && time.Since(c.began) < c.patience/4; i++ {
				t, err := c.releasedMeanwhile(i%2 == 0, (w+i/2)%2 == 0, trip)
				if err != nil {
					failed <- err
					return
				}
				late := time.NewTimer(limit)
				select {
				case a := <-t.done:
					late.Stop()
					if a.err != nil {
						failed <- a.err
						return
					}
				case <-late.C:
					missed <- t
					return
				}
			}
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		c.failf("a wait for a name that is released meanwhile: %v", <-failed)
	}
	n := len(missed)
	if n == 0 {
		return
	}
	c.wakes()
	for range n {
		if t := <-missed; t.waiting() {
			c.failLate(driver.MaxSilence, "%d of %d callers waited for more than %v after a release that came while their Wait began, and others that began later did not", n, workers, limit)
		}
	}
}

// wakes returns how long a refusal takes, and how long a Wait may take that misses nothing: much
// longer than those that had begun long before the release.
func (c *check) wakes() (trip, limit time.Duration) {
	for _, reserve := range []bool{false, true} {
		l := c.take(c.a, c.request(c.newName()), "of a free name")
		began := time.Now()
		c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l)
		trip = time.Since(began)
		w := c.waitOnce(c.b, c.request(l.req.Name), reserve)
		c.settle()
		began = time.Now()
		c.releaseFreely(l)
		if a := c.awaitAnswer(w, "waiting for a release"); a.err != nil {
			c.failf("waiting for a release: %v", a.err)
		}
		limit = max(limit, driver.MaxReservation+4*time.Since(began))
	}
	return trip, limit
}

// askedByMany lets many callers ask the store, for a while. It returns a function that ends them. In a
// store in memory, the moment between a look and the joining is too short for a release to come,
// unless many wait for the mutex: then each gets it in turn. The callers end by themselves, because
// no time passes in a bubble while they ask.
func (c *check) askedByMany() (end func()) {
	const callers, calls = 1000, 2000
	ctx, cancel := context.WithCancel(c.ctx)
	name := c.newName()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			token := newToken()
			for i := 0; i < calls && ctx.Err() == nil; i++ {
				_, _ = c.a.store.Extend(ctx, name, token, 0)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// releasedMeanwhile begins to wait for a name, and releases it within the time of a few requests.
func (c *check) releasedMeanwhile(reserve, same bool, trip time.Duration) (*testWaiter, error) {
	waiter := c.b
	if same {
		waiter = c.a
	}
	r := c.request(c.newName())
	if _, err := c.a.Acquire(c.ctx, r); err != nil {
		return nil, fmt.Errorf("Acquire of a free name: %w", err)
	}
	t := c.waitOnce(waiter, c.request(r.Name), reserve)
	if !c.g.InProcess {
		if err := c.doze(rand.N(1 + 3*trip)); err != nil {
			return nil, err
		}
	}
	for range rand.N(30) {
		runtime.Gosched()
	}
	if _, err := c.a.Release(c.ctx, r.Name, r.Token.Text(), 0); err != nil {
		return nil, fmt.Errorf("Release: %w", err)
	}
	return t, nil
}
