package drivertest

import (
	"runtime/debug"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// start opens the two stores that the cases share, and finds out what they can do.
func start(h Harness) (*run, error) {
	r := &run{h: h, id: randomID(), started: time.Now(), watched: make(map[string][]Failure)}
	r.patience = 10 * time.Second
	if h.Slow {
		r.patience *= 3
	}
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
	r.has = r.probe()
	return r, nil
}

// finish closes the shared stores.
func (r *run) finish() []Failure {
	var out []Failure
	for _, s := range []driver.Store{r.a, r.b} {
		if err := s.Close(); err != nil {
			out = append(out, Failure{"close", "Close gives back what the store uses.", err.Error(), "Harness.Open"})
		}
	}
	return out
}

// forEachCase calls f for every case that applies. It first runs most cases in parallel. Then it
// runs the cases that disturb others, one by one. Some cases check the results of all the others;
// they come last.
func (r *run) forEachCase(f func(*testCase)) {
	var crowd, alone, watchers []*testCase
	for i := range table {
		k := &table[i]
		switch {
		case len(r.missing(k)) > 0:
		case k.watch != nil:
			watchers = append(watchers, k)
		case k.alone || r.h.Advance != nil:
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
	for _, k := range cases {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(k)
		})
	}
	wg.Wait()
}

// perform runs a case, and runs it again if it was too slow to prove anything.
func (r *run) perform(k *testCase) []Failure {
	r.mu.Lock()
	r.ran++
	found := r.watched[k.name]
	r.mu.Unlock()
	if k.watch != nil {
		return found
	}
	unit := r.unit
	for attempt := range 5 {
		c, still := r.newCheck(k, unit), watchStandstill()
		c.perform()
		longest := still.endWatch()
		switch {
		case c.slow:
			unit *= 3
		case len(c.failures) > 0 && longest > maxStandstill && attempt < 4:
			r.logf("%s: runs again, because this process did not run for %v", k.name, longest)
		default:
			return c.failures
		}
	}
	return []Failure{{k.name, k.clause, "no result: in five attempts the requests took longer than the leases that they are about", "perform"}}
}

// perform runs the case once, and gives it up if it hangs.
func (c *check) perform() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.cleanUp()
		defer c.recover()
		c.k.f(c)
	}()
	if !c.awaitCase(done) {
		c.errorf("a method did not return although its context ended long ago")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// awaitCase waits until the channel done is closed. It returns false if the case makes no progress
// for so long that it must be hanging.
func (c *check) awaitCase(done <-chan struct{}) bool {
	look := time.NewTicker(c.patience)
	defer look.Stop()
	for {
		select {
		case <-done:
			return true
		case <-look.C:
			if time.Since(time.Unix(0, c.progressAt.Load())) > 4*c.patience {
				return false
			}
		}
	}
}

// A case ends itself early by a panic with a value of type stop.
type stop struct{ slow bool }

func (c *check) recover() {
	switch p := recover().(type) {
	case nil:
	case stop:
		c.slow = p.slow
	default:
		c.errorf("panic: %v\n%s", p, debug.Stack())
	}
}
