package drivertest

import (
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// start opens the two stores that the cases share, and finds out what they can do.
func start(h Harness) (*run, error) {
	r := &run{h: h, id: randomID(), started: time.Now(), watched: make(map[string][]Failure)}
	r.patience = 10 * time.Second
	if h.Slow {
		r.patience *= 3
	}
	r.stillness = watchStandstill
	var err error
	if r.a, err = r.open(); err != nil {
		return nil, err
	}
	if r.b, err = r.open(); err != nil {
		r.a.Close()
		return nil, err
	}
	r.g = r.a.Guarantees()
	r.unit = max(driver.MinTTL, r.g.MinTTL)
	r.implemented = abilities(r.a)
	return r, nil
}

const closing = "Close gives back what the store uses."

// finish closes the shared stores.
func (r *run) finish() []Failure {
	var out []Failure
	for _, s := range []driver.Store{r.a, r.b} {
		if err := s.Close(); err != nil {
			out = append(out, Failure{"close", closing, err.Error(), "Harness.Open"})
		}
	}
	return out
}

// forEachCase calls f for every case that applies. It first runs most cases in parallel. Then it
// runs the cases that disturb others, one by one. Some cases check the results of all the others;
// they come last.
func (r *run) forEachCase(do func(*testCase)) {
	f := func(k *testCase) {
		if r.mayGoOn() {
			do(k)
		}
	}
	var crowd, alone, watchers []*testCase
	for i := range table {
		k := &table[i]
		switch {
		case len(r.missing(k)) > 0:
		case k.watch != nil:
			watchers = append(watchers, k)
		case k.alone:
			alone = append(alone, k)
		case r.h.Alone:
		default:
			crowd = append(crowd, k)
		}
	}
	r.together(crowd, f)
	for _, k := range append(alone, watchers...) {
		f(k)
	}
}

func (r *run) together(cases []*testCase, do func(*testCase)) {
	n := r.h.Parallel
	if n <= 0 {
		n = 32
	}
	slots := make(chan struct{}, n)
	var wg sync.WaitGroup
	for i, k := range cases {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			<-time.After(r.phase(i))
			do(k)
		})
	}
	wg.Wait()
}

// phase returns how long the i-th case waits before it begins. Without these waits, many cases
// would begin in the same moment. A store that rounds times would then get only few different times
// to round. The golden section spreads the waits evenly over the shortest lease.
func (r *run) phase(i int) time.Duration {
	_, part := math.Modf(float64(i) * math.Phi)
	return time.Duration(part * float64(r.unit))
}

// maxAttempts is how often a case runs, at most. Its leases grow in the first attempts only. A
// store that does something a little too late is wrong if it does so in lateTries attempts.
const (
	maxAttempts = 8
	longerTries = 4
	lateTries   = 3
)

// perform runs a case. It runs the case again if all failures that it saw may come from a slow
// machine. A failure that shows that the store is wrong is final.
func (r *run) perform(k *testCase) []Failure {
	r.mu.Lock()
	r.ran++
	found := r.watched[k.name]
	r.mu.Unlock()
	if k.watch != nil {
		return found
	}
	unit := r.unit
	for attempt := 1; ; attempt++ {
		c := r.newCheck(k, unit)
		c.attempt = attempt
		c.perform()
		switch {
		case len(c.failures) > 0 || len(c.unproven) == 0:
			return c.failures
		case attempt == maxAttempts:
			return noResult(c.unproven)
		}
		r.runsAgain(c)
		if c.slow && attempt <= longerTries {
			unit *= 3
		}
	}
}

// tooSlow begins what was seen in a case without a result.
const tooSlow = "no result, because"

// noResult returns the failures of a case whose attempts all failed, on a machine that was too slow
// for each of them.
func noResult(unproven []Failure) []Failure {
	for i := range unproven {
		unproven[i].Seen = fmt.Sprintf("%s in %d attempts the machine was too slow; seen in the last one: %s", tooSlow, maxAttempts, unproven[i].Seen)
	}
	return unproven
}

// runsAgain reports an attempt that does not count. Its message does not say that safety is broken: the
// lease of the first holder may have ended before.
func (r *run) runsAgain(c *check) {
	for _, f := range c.unproven {
		f.Seen = strings.TrimPrefix(f.Seen, safety.Mark)
		r.logf("%s runs again: this machine may be the reason. Something took %v here.\n\tseen: %s\n\tat:   %s",
			c.k.name, c.delay().Round(time.Millisecond), f.Seen, f.At)
	}
}

// maxSilent is in how many cases a method may take too long. Then the run ends, because each
// further case would probably take as long.
const maxSilent = 3

// mayGoOn reports whether another case may run.
func (r *run) mayGoOn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silent < maxSilent
}

// perform runs the case once, and gives it up if it hangs.
func (c *check) perform() {
	defer c.still.end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.cleanUp()
		defer c.recover()
		c.k.f(c)
	}()
	c.awaitCase(done)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// looks is how often awaitCase looks for calls that take too long, in each MaxSilence.
const looks = 10

// awaitCase waits until the channel done is closed. It gives up the case if a call takes longer
// than twice MaxSilence, or if the case makes no progress for so long that it must be hanging.
// awaitCase counts looks instead of measuring time, so that a standstill of this process does not
// count.
func (c *check) awaitCase(done <-chan struct{}) {
	look := time.NewTicker(driver.MaxSilence / looks)
	defer look.Stop()
	for {
		select {
		case <-done:
			return
		case <-look.C:
		}
		if p := c.silentCall(); p != nil {
			c.endSilent(p, done)
			return
		}
		if time.Since(time.Unix(0, c.progressAt.Load())) > 4*c.patience {
			c.errorf("a method did not return although its context ended long ago")
			return
		}
	}
}

// silentCall returns a call that takes too long, or nil.
func (c *check) silentCall() *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.pending {
		if p.looks++; p.looks > 2*looks {
			return p
		}
	}
	return nil
}

// endSilent ends the case because the call p takes too long. It does not wait long for the case.
func (c *check) endSilent(p *pending, done <-chan struct{}) {
	c.fail(Failure{c.k.name, inTime, fmt.Sprintf("%s has not returned after %v", p.op, 2*driver.MaxSilence), placeIn(p.at)})
	c.mu.Lock()
	c.over, c.silent = true, true
	c.mu.Unlock()
	c.run.mu.Lock()
	c.run.silent++
	c.run.mu.Unlock()
	c.end()
	wait := time.NewTimer(driver.MaxSilence)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	}
}

// A case ends itself early by a panic with a value of type stop.
type stop struct{}

func (c *check) recover() {
	switch p := recover().(type) {
	case nil, stop:
	default:
		c.errorf("panic: %v\n%s", p, debug.Stack())
	}
}
