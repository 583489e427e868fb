package soak

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/internal/safety"
)

// electionName returns the name on which the candidates of all processes elect a leader.
func electionName(prefix string) string { return prefix + "election" }

const (
	campaignFor = 2 * time.Second      // after this time a candidate begins anew, with other options
	leadLook    = 5 * time.Millisecond // how often a leader looks whether it still leads
)

var errLead = errors.New("the work of the leader failed")

// campaign takes part in the election until ctx ends.
func (w *worker) campaign(ctx context.Context) {
	for ctx.Err() == nil {
		l := &w.dice.load
		opts := []padlock.Option{padlock.TTL(w.dice.between(l.MinTTL, l.MaxTTL))}
		if w.dice.percent(20) {
			opts = append(opts, padlock.NoRenewal())
		}
		e := election.New(w.locker, electionName(l.Prefix), election.LockOptions(opts...), election.BackOff(10*time.Millisecond, 50*time.Millisecond))
		running, stop := context.WithTimeout(ctx, campaignFor)
		// The error does not matter: after every temporary error, Run itself campaigns again.
		_ = e.Run(running, func(ctx context.Context) error { return w.lead(ctx, e) })
		stop()
		pause(ctx, w.dice.between(0, 20*time.Millisecond))
	}
}

// lead is the work of a leader. As long as e.Leads returns true, it logs that this worker leads.
// e.Leads returns false when the lease has ended by the worker's own clock.
func (w *worker) lead(ctx context.Context, e *election.Election) error {
	w.holds++
	fence, _ := padlock.FenceFrom(ctx)
	piece := Event{Op: Led, Name: electionName(w.dice.load.Prefix), Hold: w.first | w.holds, Fence: fence, Call: clockNow()}
	end := piece.Call + int64(w.dice.between(0, 300*time.Millisecond))
	if w.dice.percent(20) {
		end = forever // leads until the lease ends, or the candidate's time is over
	}
	for piece.At = clockNow(); e.Leads(); piece.At = clockNow() {
		w.log(piece)
		if piece.At >= end || ctx.Err() != nil {
			w.confirm(ctx, e, piece)
			break
		}
		piece.Call = piece.At
		pause(ctx, leadLook)
	}
	if w.dice.percent(30) {
		return errLead
	}
	return nil
}

// confirm is called when a candidate is about to end its lead. In half of the calls, it asks the
// store whether the candidate still leads. If the store says yes, the lead certainly lasted until
// the question was sent. Without this answer, the lead may have ended earlier, because a candidate
// may learn late that it has lost the lock.
func (w *worker) confirm(ctx context.Context, e *election.Election, piece Event) {
	if !w.dice.percent(50) {
		return
	}
	piece.Call, piece.At, piece.Err = piece.At, clockNow(), confirmed
	if e.IsLeader(ctx) == nil {
		w.log(piece)
	}
}

// confirmed is the content of the field Err in a Led event, if the store has confirmed that the
// candidate was the leader.
const confirmed = "confirmed"

// A leadership is the time in which a candidate led.
type leadership struct {
	hold     int64
	worker   int
	fence    uint64
	from, to int64
	sure     int64 // the latest time at which the store confirmed that the candidate led, or 0
}

// leaders checks I12.
func (c *checker) leaders() {
	byHold := map[int64]*leadership{}
	byName := map[string][]*leadership{}
	for _, e := range c.events {
		if e.Op != Led {
			continue
		}
		l := byHold[e.Hold]
		if l == nil {
			l = &leadership{hold: e.Hold, worker: e.Worker, fence: e.Fence, from: e.Call}
			byHold[e.Hold] = l
			byName[e.Name] = append(byName[e.Name], l)
		}
		l.to = max(l.to, e.At)
		if e.Err == confirmed {
			l.sure = max(l.sure, e.At)
		}
	}
	late := delayOf(c.events)
	for name, leads := range byName {
		for _, l := range leads {
			// Even a leader that resigned may have lost its lease before, without noticing.
			if late.most > 0 {
				l.to = max(late.livedUntil(l.worker, l.to), l.sure)
			}
		}
		c.oneLeader(name, leads)
	}
}

// oneLeader compares each leadership with the earlier ones.
func (c *checker) oneLeader(name string, leads []*leadership) {
	slices.SortFunc(leads, func(a, b *leadership) int { return cmp.Compare(a.from, b.from) })
	var last, highest leadership // the leadership with the latest end so far, and the one with the greatest fence
	for _, l := range leads {
		switch {
		case l.from < last.to && l.from < l.to:
			c.say("I12", l.from, name, "%v", safety.ErrTwoHold("lead %x (worker %d) began %v before the end of lead %x (worker %d)", l.hold, l.worker, time.Duration(last.to-l.from), last.hold, last.worker))
		case l.fence != 0:
			if err := safety.FenceRises(l.fence, highest.fence); err != nil {
				c.say("I12", l.from, name, "lead %x after lead %x: %v", l.hold, highest.hold, err)
			}
		}
		if l.to > last.to {
			last = *l
		}
		if l.fence > highest.fence {
			highest = *l
		}
	}
}

// candidates starts the candidates of a process, which take part in the election, and the
// goroutines that wait for long, ask holders to leave, or use package newest with the Locker newer. The
// function stop ends them, and returns when they have ended.
func (o *order) candidates(ctx context.Context, monitor monitorAPI, l, newer *padlock.Locker) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	g := o.Goroutines
	start := func(n int, work func(*worker)) {
		for range n {
			w := newWorker(o, g, monitor, l)
			g++
			all.Go(func() { work(w) })
		}
	}
	start(o.Load.Elections, func(w *worker) { w.campaign(ctx) })
	start(o.Load.Long, func(w *worker) { w.waitLong(ctx) })
	start(o.Load.Asked, func(w *worker) { w.discuss(ctx) })
	start(o.Load.Newest, func(w *worker) { w.comeAnew(ctx, newer) })
	start(o.Load.Paths, func(w *worker) { w.climb(ctx) })
	start(o.Load.Weights, func(w *worker) { w.weigh(ctx) })
	return func() {
		cancel()
		all.Wait()
	}
}
