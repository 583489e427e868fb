package drivertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Harness opens a store for the suite. Only Open is required. The other functions let the suite
// check more.
type Harness struct {
	// Open opens the store. It is called several times in a run, and may be called concurrently.
	// All stores that it returns must see the same locks, as two processes with the same
	// configuration do. Close must end everything that Open starts.
	Open func(ctx context.Context) (driver.Store, error)

	// Prefix is put in front of every name, in case other programs use the same server.
	Prefix string

	// Anonymous says that this store cannot record the holder of a name. If it is false, the suite
	// checks that other processes see the holder.
	Anonymous bool

	// Slow triples the time that a result may take. The cases that send many requests then send
	// fewer.
	Slow bool

	// Parallel is how many cases run at the same time. 0 means 32.
	Parallel int

	// Alone restricts the run to the cases that need the store for themselves, for example because
	// they inject faults. It is for a store that another run has already checked with all cases.
	Alone bool

	// Restart ends the server as kill -9 does and starts it again. If keepData is false, the server
	// starts without data; otherwise it starts with the data that it keeps.
	Restart func(keepData bool) error

	// CutConnection breaks the connections of s abruptly, as the death of a process or a router
	// does. s may connect again.
	CutConnection func(s driver.Store) error

	// LoseReply loses one reply: the reply to the next request that s sends to the server and that
	// may change something. The server carries that request out. A call of a method may send
	// several requests: reads before the lost one, and all requests after it, get their replies.
	// The connection of the lost reply may break or stay open.
	LoseReply func(s driver.Store) error

	// Pause makes the server silent, as SIGSTOP does: connections stay open, but the server sends
	// no reply until resume is called.
	Pause func() (resume func() error, err error)

	// Full(true) takes all free memory or disk space from the server, so that the server can store
	// nothing new. Full(false) gives that space back.
	Full func(on bool) error

	// FullSays is a text that names the limit, such as the name of a setting. While the server is
	// full, every error for a new hold must contain it.
	FullSays string

	// FullRefuses lists what a full server may refuse, as the page of the store says: "extend",
	// "release", "demotion". The refusal changes nothing, and the hold stays.
	FullRefuses []string

	// SkewClock makes the clock of the server, and of all its front ends, differ from those of the
	// clients by d more than at the start of the run; d may be below 0. So for the server, requests
	// before and after a call come from clients whose clocks differ. The store must see it where it
	// reads the server's time.
	SkewClock func(d time.Duration) error

	// Foreign acquires the lock on name as a program other than padlock would.
	Foreign func(name string) (release func() error, err error)

	// Logf, if set, gets the summary of Check: the abilities of the store, and the promises that
	// could not be checked. Run writes it to the test's log.
	Logf func(format string, args ...any)
}

// Failure is a rule of the contract that a store broke.
type Failure struct {
	Case   string // name of the case
	Clause string // the rule
	Seen   string // the result that broke the rule
	At     string // file:line of the check
}

// String returns all fields in three lines.
func (f Failure) String() string {
	return fmt.Sprintf("%s: %s\n\tseen: %s\n\tat:   %s", f.Case, f.Clause, f.Seen, f.At)
}

// Run checks the store, with one subtest for each case. It must not be called inside a
// testing/synctest bubble, where subtests are not allowed; see [Check].
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Logf == nil {
		h.Logf = t.Logf
	}
	r, err := start(h)
	if err != nil {
		t.Fatalf("the store does not open: %v", err)
	}
	r.forEachCase(func(k *testCase) {
		t.Run(k.name, func(t *testing.T) {
			for _, f := range r.perform(k) {
				t.Error(f)
			}
		})
	})
	for _, f := range r.finish() {
		t.Error(f)
	}
	t.Log(r.summary())
}

// Check checks the store and returns the rules that it broke, in the order of the table of cases,
// or nil. It may be called inside a testing/synctest bubble, and outside of tests.
func Check(h Harness) []Failure {
	r, err := start(h)
	if err != nil {
		return []Failure{{Case: "open", Clause: "A store can be opened.", Seen: err.Error(), At: "Harness.Open"}}
	}
	return r.check(nil)
}

// A Result is what became of one case.
type Result struct {
	Case, Clause string

	// Missing is why the case has no verdict, or "": a promise or an interface that the store lacks,
	// the field of Harness that is not set ("Harness.Restart"), "a store that answers in time" or
	// "a faster machine".
	Missing string

	Failures []Failure
	Took     time.Duration // from the first attempt to the end of the last one
}

// Ask checks the store like [Check], and returns what became of every case, in the order of the
// table. The last one is that of closing the shared stores. If the function only is not nil, Ask runs
// and returns only the cases whose names it accepts. The error is that of Harness.Open. Like Check,
// Ask runs cases concurrently and returns after the last one.
func Ask(h Harness, only func(name string) bool) ([]Result, error) {
	r, err := start(h)
	if err != nil {
		return nil, err
	}
	return r.ask(only), nil
}

// check is ask for the rules that the store broke.
func (r *run) check(filter func(name string) bool) (out []Failure) {
	for _, result := range r.ask(filter) {
		out = append(out, result.Failures...)
	}
	return out
}

// ask runs the cases whose name the function filter accepts, or all cases if filter is nil, and
// ends the run.
func (r *run) ask(filter func(name string) bool) (out []Result) {
	var mu sync.Mutex
	found := make(map[string]Result)
	r.forEachCase(func(k *testCase) {
		if filter != nil && !filter(k.name) {
			return
		}
		began := time.Now()
		fs := r.perform(k)
		mu.Lock()
		defer mu.Unlock()
		found[k.name] = Result{Failures: fs, Took: time.Since(began)}
	})
	for i := range table {
		k := &table[i]
		if filter != nil && !filter(k.name) {
			continue
		}
		result, ran := found[k.name]
		result.Case, result.Clause = k.name, k.clause
		missing := r.missing(k)
		switch {
		case len(missing) > 0:
			result.Missing = missing[0].what
		case !ran:
			result.Missing = "a store that answers in time" // the other cases waited for an answer until the run ended
		case len(result.Failures) > 0 && strings.HasPrefix(result.Failures[0].Seen, tooSlow):
			result.Missing = "a faster machine"
		}
		out = append(out, result)
	}
	r.logf("%s", r.summary())
	return append(out, Result{Case: "close", Clause: closing, Failures: r.finish()})
}
