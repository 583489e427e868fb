//go:build linux

package trial

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// A Tally is the result of one worker. It goes from a child process to its parent as JSON.
type Tally struct {
	Locks    int           // how often it got the lock
	Handed   int           // how often it got the lock from another worker
	Longest  int64         // longest wait for the lock, in nanoseconds
	Stranded int           // 1 if it was still waiting for the lock long after the end of the trial
	CPU      time.Duration // CPU time of the process during the work; only a child sets it
	Err      string
}

// Work sleeps until the trial begins. Then it locks and unlocks in a loop until the trial ends. A
// worker that is waiting for the lock at the end gets some extra time. If the lock does not come
// then, the worker sets Stranded.
func (p *Page) Work(l Lock, id int32) (t Tally) {
	end := p.end.Load()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.over.Load()-now()))
	defer cancel()
	time.Sleep(time.Duration(p.start.Load() - now()))
	for asked := now(); asked < end; asked = now() {
		unlock, err := l(ctx)
		got := now()
		t.Longest = max(t.Longest, got-asked)
		if err != nil {
			t.failed(ctx, err)
			return t
		}
		if before := p.enter(id); got <= end {
			t.got(before != id && before != 0)
		}
		keepFor(p.Hold)
		p.leave(id)
		if err := unlock(); err != nil {
			t.failed(ctx, err)
			return t
		}
	}
	return t
}

func (t *Tally) got(handed bool) {
	t.Locks++
	if handed {
		t.Handed++
	}
}

func (t *Tally) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		t.Stranded = 1
		return
	}
	t.Err = err.Error()
}

// CompeteColumns are the columns of Compete and of Work that most tables show.
var CompeteColumns = []string{
	"hand-offs/s", "locks/s", "Jain",
	"longest ms", // longest wait
	"violations", "stranded",
}

// Compete makes n goroutines lock and unlock one name repeatedly, each with a client of its own,
// and keep it for the time hold. After length, nobody locks any more, and a worker that still waits
// then gets the time grace.
func (p *Peer) Compete(n int, length, grace, hold time.Duration, m func(*Page) Meter) (f measure.Figures, err error) {
	page := &Page{Hold: hold}
	all, err := p.gather(page, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.close()) }()
	locks, err := all.locks(n, false)
	if err != nil {
		return nil, err
	}
	return meter(m, page).around(func() (measure.Figures, int, error) {
		page.Span(0, length, grace)
		tallies := make([]Tally, n)
		Together(n, func(i int) error { tallies[i] = page.Work(locks[i], int32(i+1)); return nil })
		return page.Summary(tallies)
	})
}

// Summary computes the figures of a trial from its workers' tallies. It also returns how often the
// workers got the lock.
func (p *Page) Summary(tallies []Tally) (f measure.Figures, locks int, err error) {
	var sum Tally
	var shares []float64
	served := 0
	for _, t := range tallies {
		sum.Locks += t.Locks
		sum.Handed += t.Handed
		sum.Longest = max(sum.Longest, t.Longest)
		sum.Stranded += t.Stranded
		shares = append(shares, float64(t.Locks))
		served += min(t.Locks, 1)
		if t.Err != "" {
			err = errors.Join(err, errors.New(t.Err))
		}
	}
	seconds := float64(p.end.Load()-p.start.Load()) / 1e9
	return measure.Figures{
		"hand-offs/s": float64(sum.Handed) / seconds,
		"locks/s":     float64(sum.Locks) / seconds, "locks": float64(sum.Locks),
		"Jain":   measure.Jain(shares),
		"served": float64(served), "fewest": slices.Min(shares),
		"longest ms": float64(sum.Longest) / float64(time.Millisecond),
		"violations": float64(p.violations.Load()), "stranded": float64(sum.Stranded),
	}, sum.Locks, err
}

// keepFor sleeps in the kernel. A timer of Go may end up to 1 ms late if the process has received
// something meanwhile: the runtime then waits for whole milliseconds. A store that works in the
// background while a lock is held would seem to be slower than it is.
func keepFor(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for d > 0 && syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
