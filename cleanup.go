package padlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// The cleaner releases locks that the store may have granted to callers that no longer wait. Its
// requests do not use the contexts of these callers. The number of its jobs is bounded: when
// thousands of callers are cancelled at once, further jobs are dropped and counted, and their locks
// end with their leases.
type cleaner struct {
	l       *Locker
	ctx     context.Context // ends when Close gives up
	abort   context.CancelFunc
	jobs    []job // guarded by Locker.mu, like the fields below
	open    int   // jobs that are not done, including those being worked on
	late    int   // how many of the open jobs pause before their second request; see askAgain
	workers int
	idle    chan struct{} // closed when no job is open and no worker runs; nil unless awaitJobs waits for that
	stopped bool          // Close no longer waits for jobs, so new jobs are dropped
}

const (
	maxCleanUps      = 1024
	maxCleaners      = 8
	cleanUpPatience  = 2 * time.Second
	lateRequestDelay = 500 * time.Millisecond
)

// cleanUp is a token that may still have something in the store: a hold that nobody wants, or one
// whose release had no reply.
type cleanUp struct {
	name    string
	token   driver.Token
	acquire bool // a request to acquire name may still be on its way
	permits int  // if not 0, token may have one of the permits 0 to permits-1 of name
	keep    time.Duration
	events  *eventQueue // the events of the acquire or hold that caused the clean-up; nil if there is no observer
}

type job struct {
	cleanUp
	until driver.Instant // when the lease ends; the job is dropped then
	since driver.Instant // when the job was added
	again bool           // this is the second request; see askAgain
}

func (c *cleaner) init(l *Locker) {
	c.l = l
	c.ctx, c.abort = context.WithCancel(context.Background())
}

// add begins a clean-up. If the store has not confirmed the release by the end of the lease, the
// clean-up is dropped.
func (c *cleaner) add(what cleanUp, lease time.Duration) {
	now := c.l.clock.Now()
	c.l.mu.Lock()
	defer c.l.unlock()
	c.l.stats.uncertain++
	what.events.noteCall(Event{Kind: EventUncertain, Outcome: OutcomeUncertain})
	if c.open-c.late >= maxCleanUps || c.stopped {
		c.dropped(what, errNoRoom)
		return
	}
	c.open++
	c.startJob(job{cleanUp: what, since: now, until: now.Add(lease)})
}

// addLate releases once more, a little later, what a request may take that was repeated because its
// reply was lost: the request may still be on its way, and the lock was released. The caller holds
// mu.
func (c *cleaner) addLate(what cleanUp, lease time.Duration) {
	if c.stopped || c.late >= maxCleanUps {
		return
	}
	c.open++
	now := c.l.clock.Now()
	what.events = nil
	c.askAgain(job{cleanUp: what, since: now, until: now.Add(lease)})
}

// startJob hands j to a worker. The caller holds mu.
func (c *cleaner) startJob(j job) {
	c.jobs = append(c.jobs, j)
	if c.workers < maxCleaners {
		c.workers++
		go c.work()
	}
}

var (
	errNoRoom    = fmt.Errorf("%d clean-ups are under way, or Close has given up", maxCleanUps)
	errLateStart = errors.New("the lease ended before the clean-up could begin")
)

func (c *cleaner) dropped(what cleanUp, err error) {
	c.l.stats.dropped++
	what.events.noteCall(Event{Kind: EventDropped, Err: err})
}

// work does jobs until none are left.
func (c *cleaner) work() {
	c.l.mu.Lock()
	for len(c.jobs) > 0 {
		j := c.jobs[0]
		c.jobs = c.jobs[1:]
		if c.l.clock.Now() >= j.until && !j.again { // the lease ended while the job waited for a worker
			c.dropped(j.cleanUp, errLateStart)
			c.ended()
			continue
		}
		c.l.unlockApart()
		out, err := c.repeatRelease(j)
		c.l.mu.Lock()
		switch {
		case err != nil:
			c.dropped(j.cleanUp, err)
			c.ended()
		case (j.acquire || foundNothing(out)) && !j.again && c.late < maxCleanUps:
			c.askAgain(j)
		default:
			c.jobDone(j)
		}
	}
	c.jobs = nil
	c.workers--
	c.noteIdle()
	c.l.unlockApart()
}

// foundNothing reports whether out means that a release found nothing that it could release.
func foundNothing(out driver.Outcome) bool {
	return out == driver.OutcomeGone || out == driver.OutcomeTaken
}

// jobDone ends j after the store has replied. The caller holds mu.
func (c *cleaner) jobDone(j job) {
	if j.events != nil {
		j.events.noteCall(Event{Kind: EventCleaned, Took: c.l.clock.Now().Sub(j.since)})
	}
	c.ended()
}

func (c *cleaner) ended() {
	c.open--
	c.noteIdle()
}

// noteIdle wakes awaitJobs if nothing is left to do. A worker may still have to begin, and to find that
// others have done its job. The caller holds mu.
func (c *cleaner) noteIdle() {
	if c.open == 0 && c.workers == 0 && c.idle != nil {
		close(c.idle)
		c.idle, c.stopped = nil, true
	}
}

// askAgain repeats a clean-up after lateRequestDelay. A clean-up releases a lock that may have been
// granted by a request whose reply was lost. That request, or its repetition, may still be on its
// way, and the store may grant the lock when the request arrives. A second clean-up then releases
// that lock too. The lease of that lock ends later, so the second clean-up has more time. It is sent
// even if it begins after its end: the store has replied to the first one, so no clean-up was dropped.
// No worker is blocked during the delay. The caller holds mu.
func (c *cleaner) askAgain(j job) {
	j.again, j.until = true, j.until.Add(lateRequestDelay)
	c.late++
	go func() {
		err := c.l.sleep(c.ctx, lateRequestDelay)
		c.l.mu.Lock()
		defer c.l.unlock()
		if c.late--; err != nil {
			c.jobDone(j)
			return
		}
		c.startJob(j)
	}()
}

// repeatRelease repeats the release until the store replies, the lease ends, or the cleaner is
// stopped. If it is not known which permit the token has, repeatRelease tries one permit after the
// other until it finds that permit.
func (c *cleaner) repeatRelease(j job) (driver.Outcome, error) {
	name, permit := j.name, 0
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if j.permits > 0 {
			name = fast.SlotName(j.name, permit)
		}
		ctx, cancel := context.WithTimeout(c.ctx, cleanUpPatience)
		out, err := c.l.store.Release(ctx, name, j.token.Text(), j.keep)
		cancel()
		if err == nil && foundNothing(out) && permit+1 < j.permits {
			permit++
			continue
		}
		if err == nil || c.l.clock.Now() >= j.until || c.l.sleep(c.ctx, pause) != nil {
			return out, err
		}
	}
}

// awaitJobs waits until all clean-ups are done and their workers have ended, or ctx ends. No clean-up
// begins after awaitJobs has returned.
func (c *cleaner) awaitJobs(ctx context.Context) error {
	defer c.abort()
	idle := make(chan struct{})
	c.l.mu.Lock()
	c.idle, c.stopped = idle, c.open == 0
	c.noteIdle()
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
