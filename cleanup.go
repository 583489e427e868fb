package padlock

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The cleaner releases what may have been granted to callers that are gone, on a
// context of its own. The number of its jobs is bounded: above that, as after
// thousands of cancels at once, a job is dropped and counted, and what it was for
// lapses with its lease.
type cleaner struct {
	l       *Locker
	ctx     context.Context // ends when Close gives up
	abort   context.CancelFunc
	jobs    []job // guarded by Locker.mu, as is what follows
	open    int   // jobs not done, those under way included
	late    int   // of those: asked once, and to be asked once more
	workers int
	idle    chan struct{} // of Close: closed when no job is open
	stopped bool          // Close has seen that, or given up: no more jobs
}

const (
	maxCleanUps      = 1024
	maxCleaners      = 8
	cleanUpPatience  = 2 * time.Second
	lateRequestDelay = 500 * time.Millisecond
)

type cleanUp struct {
	name, token string
	keep        time.Duration
	events      *eventQueue // of the call that it is for; nil if nobody observes
}

type job struct {
	cleanUp
	until driver.Instant // then the lease is over, and with it the job
	since driver.Instant // when it began
	again bool           // there was nothing to release when it was asked first
}

func (c *cleaner) init(l *Locker) {
	c.l = l
	c.ctx, c.abort = context.WithCancel(context.Background())
}

// add begins a clean-up that is given up after the lease.
func (c *cleaner) add(what cleanUp, lease time.Duration) {
	now := c.l.clock.Now()
	c.l.mu.Lock()
	defer c.l.unlock()
	c.l.stats.uncertain++
	what.events.noteCall(Event{Kind: EventUncertain, Outcome: OutcomeUncertain})
	if c.open-c.late >= maxCleanUps || c.stopped {
		c.dropped(what)
		return
	}
	c.open++
	c.begin(job{cleanUp: what, since: now, until: now.Add(lease)})
}

// begin hands j to a worker. The caller holds mu.
func (c *cleaner) begin(j job) {
	c.jobs = append(c.jobs, j)
	if c.workers < maxCleaners {
		c.workers++
		go c.work()
	}
}

func (c *cleaner) dropped(what cleanUp) {
	c.l.stats.dropped++
	what.events.noteCall(Event{Kind: EventDropped})
}

// work does clean-ups until there are none.
func (c *cleaner) work() {
	c.l.mu.Lock()
	for len(c.jobs) > 0 {
		j := c.jobs[0]
		c.jobs = c.jobs[1:]
		if c.l.clock.Now() >= j.until { // while it waited for a worker
			c.dropped(j.cleanUp)
			c.ended()
			continue
		}
		c.l.unlock()
		out, err := c.do(j)
		c.l.mu.Lock()
		nothing := out == driver.Gone || out == driver.Taken
		switch {
		case err != nil:
			c.dropped(j.cleanUp)
			c.ended()
		case nothing && !j.again && c.late < maxCleanUps:
			c.askAgain(j)
		default:
			c.done(j)
		}
	}
	c.jobs = nil
	c.workers--
	c.l.unlock()
}

// done ends j, which the store has confirmed. The caller holds mu.
func (c *cleaner) done(j job) {
	if j.events != nil {
		j.events.noteCall(Event{Kind: EventCleaned, Took: c.l.clock.Now().Sub(j.since)})
	}
	c.ended()
}

func (c *cleaner) ended() {
	c.open--
	if c.open == 0 && c.idle != nil {
		close(c.idle)
		c.idle, c.stopped = nil, true
	}
}

// askAgain does j once more a little later: there was nothing to release, but the
// request whose outcome is not known may still be on its way. No worker waits
// for that. The caller holds mu.
func (c *cleaner) askAgain(j job) {
	j.again = true
	c.late++
	go func() {
		err := c.l.sleep(c.ctx, lateRequestDelay)
		c.l.mu.Lock()
		defer c.l.unlock()
		if c.late--; err != nil {
			c.done(j)
			return
		}
		c.begin(j)
	}()
}

// do asks the store until it answers.
func (c *cleaner) do(j job) (driver.Outcome, error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(c.ctx, cleanUpPatience)
		out, err := c.l.store.Release(ctx, j.name, j.token, j.keep)
		cancel()
		if err == nil || c.l.clock.Now() >= j.until || c.l.sleep(c.ctx, pause) != nil {
			return out, err
		}
	}
}

// wait lets the clean-ups finish until ctx ends. No clean-up begins after it.
func (c *cleaner) wait(ctx context.Context) error {
	defer c.abort()
	idle := make(chan struct{})
	c.l.mu.Lock()
	if c.stopped = c.open == 0; !c.stopped {
		c.idle = idle
	} else {
		close(idle)
	}
	c.l.unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	c.l.mu.Lock()
	c.stopped = true
	c.l.unlock()
	c.abort()
	<-idle
	return context.Cause(ctx)
}
