package padlock

import (
	"context"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The cleaner gives back what may have been granted to callers that are gone,
// on a context of its own. It is bounded: what is too much is counted and
// lapses with its lease.
type cleaner struct {
	l       *Locker
	ctx     context.Context // ends when Close gives up
	abort   context.CancelFunc
	jobs    []job // guarded by Locker.mu, as is what follows
	open    int   // jobs not done, those under way included
	workers int
	running sync.WaitGroup
}

const (
	maxCleanUps      = 64
	maxCleaners      = 8
	cleanUpPatience  = 2 * time.Second
	lateRequestDelay = 500 * time.Millisecond
)

type cleanUp struct {
	name, token string
	keep        time.Duration
}

type job struct {
	cleanUp
	until driver.Instant // then the lease is over, and with it the job
}

func (c *cleaner) init(l *Locker) {
	c.l = l
	c.ctx, c.abort = context.WithCancel(context.Background())
}

// add begins a clean-up that is given up after the lease.
func (c *cleaner) add(what cleanUp, lease time.Duration) {
	until := c.l.clock.Now().Add(lease)
	c.l.mu.Lock()
	defer c.l.unlock()
	c.l.stats.uncertain++
	c.l.note(Event{Kind: EventUncertain, Name: what.name})
	if c.open >= maxCleanUps || c.ctx.Err() != nil {
		c.dropped(what)
		return
	}
	c.open++
	c.jobs = append(c.jobs, job{what, until})
	if c.workers < maxCleaners {
		c.workers++
		c.running.Add(1)
		go c.work()
	}
}

func (c *cleaner) dropped(what cleanUp) {
	c.l.stats.dropped++
	c.l.note(Event{Kind: EventDropped, Name: what.name})
}

// work does clean-ups until there are none.
func (c *cleaner) work() {
	defer c.running.Done()
	c.l.mu.Lock()
	for len(c.jobs) > 0 {
		j := c.jobs[0]
		c.jobs = c.jobs[1:]
		c.l.unlock()
		done := c.do(j)
		c.l.mu.Lock()
		c.open--
		if done {
			c.l.note(Event{Kind: EventCleaned, Name: j.name})
		} else {
			c.dropped(j.cleanUp)
		}
	}
	c.jobs = nil
	c.workers--
	c.l.unlock()
}

// do asks the store until it confirms. If there was nothing to release, the
// request that made the doubt may still be on its way: then it asks once more
// a little later.
func (c *cleaner) do(j job) bool {
	pause := 50 * time.Millisecond
	for again := false; ; {
		ctx, cancel := context.WithTimeout(c.ctx, cleanUpPatience)
		out, err := c.l.store.Release(ctx, j.name, j.token, j.keep)
		cancel()
		switch {
		case err == nil && (out != driver.Gone || again):
			return true
		case err == nil:
			again = true
			pause = lateRequestDelay
		}
		if c.l.clock.Now() >= j.until || c.l.sleep(c.ctx, pause) != nil {
			return err == nil
		}
		pause = min(2*pause, time.Second)
	}
}

// wait lets the clean-ups finish, until ctx ends.
func (c *cleaner) wait(ctx context.Context) error {
	defer c.abort()
	done := make(chan struct{})
	go func() { c.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		c.abort()
		<-done
		return ctx.Err()
	}
}
