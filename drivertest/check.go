package drivertest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// check is one attempt at one case.
type check struct {
	*run
	k    *testCase
	ctx  context.Context
	end  context.CancelFunc
	a, b *client       // two processes
	unit time.Duration // the unit of time for leases that are meant to run out

	// patience is how long a result may take in this attempt. An attempt with longer leases needs
	// more time than run.patience.
	patience time.Duration

	attempt int // 1, 2, …
	began   time.Time
	stem    string // the beginning of all names of this attempt

	progressAt atomic.Int64 // when the case last made progress, in nanoseconds since 1970
	still      stillness

	mu       sync.Mutex
	over     bool              // the attempt is over: failures that are reported from now on are ignored
	failures []Failure         // rules that the store broke
	unproven []Failure         // rules that the store broke, unless a slow machine is the reason
	slow     bool              // the next attempt needs longer leases
	silent   bool              // a call takes too long: send nothing more
	slowest  time.Duration     // the longest time that something took
	unheard  time.Duration     // the longest time after which the store gave up a call, or a Wait, without an answer
	bounds   []context.Context // of the holds that are bound to a connection
	pending  map[*pending]bool
	names    int
	undo     []func()
}

func (r *run) newCheck(k *testCase, unit time.Duration) *check {
	c := &check{run: r, k: k, unit: unit, began: time.Now(), stem: r.uniqueStem(), still: r.stillness(), pending: make(map[*pending]bool)}
	c.patience = r.patience + c.units(10)
	c.ctx, c.end = context.WithTimeout(context.Background(), 20*c.patience)
	c.noteProgress()
	c.a, c.b = &client{c, r.a}, &client{c, r.b}
	return c
}

// noteProgress records that the case is making progress. awaitCase gives up a case that does not.
func (c *check) noteProgress() { c.progressAt.Store(time.Now().UnixNano()) }

// errorf notes a failure, with the line of the case. failf does the same and then ends the case.
// Such a failure is final. If a slow machine could be the reason for it, a case calls failBefore or
// failLate instead. If the store had no answer, or has lost the connection of a hold, errorf or
// failf itself lets the case run again on a slow machine. A store that waited before it gave up
// shows by that alone that the machine may be slow: then the case runs again until it has failed
// lateTries times. A case that disturbs the store may be the reason itself, so it never runs more
// often.
func (c *check) errorf(format string, args ...any) {
	f := Failure{c.k.name, c.k.clause, fmt.Sprintf(format, args...), place()}
	if c.answersLate(args) {
		c.doubt(f, false)
	} else {
		c.fail(f)
	}
}

func (c *check) failf(format string, args ...any) {
	if c.lostConnection() && c.wasSlow(c.g.LossDelay) {
		c.notProven(false, format, args...)
	}
	c.errorf(format, args...)
	panic(stop{})
}

// answersLate reports whether one of the arguments is the error of a call that got no answer, and
// a slow machine may be the reason.
func (c *check) answersLate(args []any) bool {
	return hasNoAnswer(args) && c.wasSlow(driver.MaxSilence)
}

// wasSlow reports whether this machine took a considerable part of limit for itself, or the store
// waited in vain, and whether the case may run again because of that.
func (c *check) wasSlow(limit time.Duration) bool {
	again := c.attempt < lateTries
	return (again || !c.k.alone) && 4*c.delay() >= limit || again && c.waitedInVain()
}

func (c *check) boundTo(bound context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bounds = append(c.bounds, bound)
}

// lostConnection reports whether a hold of the case has ended because its connection did.
func (c *check) lostConnection() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.bounds, func(bound context.Context) bool { return bound.Err() != nil })
}

// hasNoAnswer reports whether one of the arguments is the error of a call that got no answer. A
// refusal is an answer, even one that a wrong store joins with ErrUncertain.
func hasNoAnswer(args []any) bool {
	return slices.ContainsFunc(args, func(a any) bool {
		err, _ := a.(error)
		return isSilence(err) && !errors.Is(err, driver.ErrHeld)
	})
}

func (c *check) fail(f Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && len(c.failures) < 10 {
		c.failures = append(c.failures, f)
	}
}

// failBefore is for a failure that counts only before the time t, usually because a lease may have
// run out then. If t has passed, the case runs again with longer leases.
func (c *check) failBefore(t time.Time, format string, args ...any) {
	if !time.Now().Before(t) {
		c.notProven(true, format, args...)
	}
	c.failf(format, args...)
}

// failLate is for a failure of a store that should have done something within limit, or of a store
// that the case should have asked something within limit. If this machine took a considerable part
// of that time for itself, the case runs again. The suite does not see every delay: the server's
// process or a single goroutine may have stood still. So if the limit is short, the case runs again
// in any case, until it has failed lateTries times.
func (c *check) failLate(limit time.Duration, format string, args ...any) {
	if 4*c.delay() >= limit || limit < driver.MaxSilence && c.attempt < lateTries {
		c.notProven(false, format, args...)
	}
	c.failf(format, args...)
}

// delay returns the longest time for which this process stood still or waited for a reply. A reply
// that has not come yet counts, too.
func (c *check) delay() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := max(c.still.longest(), c.slowest)
	for p := range c.pending {
		most = max(most, time.Since(p.began))
	}
	return most
}

// A store may give up a silent server long before MaxSilence. One that gives up sooner than after
// leastWait has hardly waited.
const leastWait = driver.MaxSilence / 20

// waitedInVain reports whether the store waited for an answer before it gave up a call, or whether
// a call of any case returned late during this attempt: then the store may have given up the
// server, and the next call has no answer at once.
func (c *check) waitedInVain() bool {
	c.run.mu.Lock()
	slow := c.slowAt.After(c.began)
	c.run.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slow || c.unheard >= leastWait
}

// hadNoAnswer notes that the store gave up a call after the time d.
func (c *check) hadNoAnswer(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unheard = max(c.unheard, d)
}

// took notes that something took the time d, because this machine is slow.
func (c *check) took(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest = max(c.slowest, d)
}

// notProven ends the case with a failure that a slow machine may be the reason for.
func (c *check) notProven(slow bool, format string, args ...any) {
	c.doubt(Failure{c.k.name, c.k.clause, fmt.Sprintf(format, args...), place()}, slow)
	panic(stop{})
}

// doubt notes a failure that a slow machine may be the reason for.
func (c *check) doubt(f Failure, slow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.unproven = append(c.unproven, f)
		c.slow = c.slow || slow
	}
}

func (c *check) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.silent
}

// place returns the file and line to report for a failure. That is the line of the test case, in a
// file cases_….go, and not a line of a helper that the case called. Helpers are methods of check.
// In a goroutine that runs only helpers, place returns the line of the outermost helper.
func place() string { return placeIn(callers()) }

// callers returns what placeIn needs. Most calls fail nothing, and names of lines are expensive.
func callers() []uintptr {
	pc := make([]uintptr, 32)
	return pc[:runtime.Callers(2, pc)]
}

func placeIn(callers []uintptr) string {
	helper := "the suite itself"
	frames := runtime.CallersFrames(callers)
	for {
		f, more := frames.Next()
		if base := filepath.Base(f.File); strings.HasPrefix(base, "cases_") {
			helper = fmt.Sprintf("%s:%d", base, f.Line)
			if !strings.Contains(f.Function, "(*check)") {
				return helper
			}
		}
		if !more {
			return helper
		}
	}
}

func (c *check) cleanUp() {
	c.mu.Lock()
	undo := c.undo
	c.undo = nil
	c.mu.Unlock()
	for i := len(undo) - 1; i >= 0; i-- {
		c.noteProgress()
		undo[i]()
	}
	c.end()
}

func (c *check) later(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undo = append(c.undo, f)
}

// openAnother opens another store, for this case only.
func (c *check) openAnother() *client {
	s, err := c.run.open()
	if err != nil {
		c.failf("another store does not open: %v", err)
	}
	c.later(func() { s.Close() })
	return &client{c, s}
}

// newName returns a name that is not used anywhere else.
func (c *check) newName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names++
	return fmt.Sprintf("%sn%d", c.stem, c.names)
}

// request returns a request for name with a lease that does not end during the case.
func (c *check) request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(newToken()), TTL: c.long(), Holder: testHolder}
}

func (c *check) readRequest(name string) driver.Request {
	r := c.request(name)
	r.Shared = true
	return r
}

// brief returns a request for name with a lease of the given number of units.
func (c *check) brief(name string, units int) driver.Request {
	r := c.request(name)
	r.TTL = c.units(units)
	return r
}

func (c *check) units(n int) time.Duration { return time.Duration(n) * c.unit }

var testHolder = driver.Holder{Host: "host-a.example", PID: 4711, Label: "nightly report", Plan: 90 * time.Second, Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}

// nap lets time pass.
func (c *check) nap(d time.Duration) {
	c.noteProgress()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
		c.failf("the case was given up after %v", 20*c.patience)
	}
}

// poll calls isDone from time to time, until isDone returns true or the time limit has passed. It
// reports whether isDone returned true.
func (c *check) poll(limit time.Duration, isDone func() bool) bool {
	return c.pollUntil(time.Time{}, limit, isDone)
}

// pollUntil is like poll for a result that is expected at the time t. Before t it passes up to a
// sixteenth of the time that is left between two calls. So it needs few calls for a long lease, and
// yet sees a result that comes before t, because the result stays.
func (c *check) pollUntil(t time.Time, limit time.Duration, isDone func() bool) bool {
	end := time.Now().Add(limit)
	for tries := 0; ; tries++ {
		if isDone() {
			return true
		}
		if tries >= 3 && !time.Now().Before(end) {
			return false
		}
		c.nap(max(time.Until(t)/16, min(c.unit/8, driver.MaxReservation/10)))
	}
}

// answered repeats a request until the store answers it, and returns the answer: nil, a refusal or
// a loss. After a fault, the store may have no answer at first.
func (c *check) answered(ask func() error) (err error) {
	c.poll(c.patience, func() bool {
		err = ask()
		return isAnswer(err) || errors.Is(err, driver.ErrSpent)
	})
	return err
}

// await returns the value that a goroutine of this case sends.
func await[T any](c *check, ch <-chan T, what string) T {
	return awaitFor(c, c.patience, ch, what)
}

func awaitFor[T any](c *check, limit time.Duration, ch <-chan T, what string) T {
	var v T
	got := c.poll(limit, func() bool {
		select {
		case v = <-ch:
			return true
		default:
			return false
		}
	})
	if !got {
		c.failLate(limit, "%s: no result within %v", what, limit)
	}
	return v
}

// maxName is the length of the longest name that the store takes.
func (c *check) maxName() int {
	if c.g.MaxName > 0 {
		return min(driver.MaxName, c.g.MaxName)
	}
	return driver.MaxName
}

func (c *check) ttlRange() (low, high time.Duration) {
	low, high = max(driver.MinTTL, c.g.MinTTL), driver.MaxTTL
	if c.g.MaxTTL > 0 {
		high = min(high, c.g.MaxTTL)
	}
	return low, high
}

// shortName returns name, shortened for a message.
func shortName(name string) string {
	if len(name) <= 60 {
		return strconv.Quote(name)
	}
	return strconv.Quote(name[:40]) + "…" + strconv.Quote(name[len(name)-16:])
}
