//go:build linux

package main

import (
	"time"

	"github.com/padlock-go/padlock"
)

// minShift is the smallest move of a lease's end that counts as a renewal. Without a renewal, two
// readings of the same end differ by less.
const minShift = 50 * time.Millisecond

// restart restarts the server while all locks are held, and measures how long it takes until every
// hold is renewed or known to be lost.
func (t *heldTrial) restart() error {
	before := t.figures["requests/s"]
	stats := t.locker.Stats()
	t.report(t.engine.name, "the server is restarted")
	ends := make([]time.Time, t.holds)
	for i, l := range t.locks {
		ends[i] = time.Now().Add(min(l.Remaining(), time.Hour)) // a hold without a lease has no end
	}
	start := time.Now()
	t.rig.restart()
	ready := time.Now()
	t.figures["away s"] = ready.Sub(start).Seconds()
	busiest, seconds, err := t.awaitRenewals(ends, ready)
	after := t.locker.Stats()
	t.figures["kept"] = float64(after.Held)
	t.figures["lost by it"] = float64(after.Lost - stats.Lost)
	t.figures["settled after s"] = seconds
	t.figures["requests/s before"] = before
	t.figures["requests/s busiest"] = busiest
	return err
}

// awaitRenewals waits until every hold is renewed or lost. It returns the greatest number of
// requests in one second, and how many seconds have passed since the server was ready.
func (t *heldTrial) awaitRenewals(ends []time.Time, ready time.Time) (busiest, seconds float64, err error) {
	last, lastAt := 0.0, ready
	settled := 0
	for time.Since(ready) < min(t.plan.patience, 4*t.plan.ttl) {
		time.Sleep(100 * time.Millisecond)
		for settled < len(ends) && settledSince(t.locks[settled], ends[settled]) {
			settled++
		}
		done := settled == len(ends)
		if seconds == 0 && done {
			seconds = time.Since(ready).Seconds()
		}
		if time.Since(lastAt) < time.Second {
			continue
		}
		n, err := t.rig.requests()
		if err != nil {
			return busiest, seconds, err
		}
		busiest = max(busiest, (n-last)/time.Since(lastAt).Seconds())
		last, lastAt = n, time.Now()
		if done {
			return busiest, seconds, nil
		}
	}
	return busiest, time.Since(ready).Seconds(), nil
}

// settledSince reports whether a hold is lost, or has been renewed beyond its old end.
func settledSince(l *padlock.Lock, oldEnd time.Time) bool {
	return l.Remaining() == 0 || time.Now().Add(min(l.Remaining(), time.Hour)).Sub(oldEnd) > minShift && l.Remaining() < time.Hour
}
