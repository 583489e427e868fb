package drivertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Harness tells the suite how to get at a store. Only Open is needed.
type Harness struct {
	// Open opens the store. It is called several times in a run, also at the
	// same time: all that it returns must see the same locks, as two processes
	// do that are configured alike. What Open starts, Close must end.
	Open func(ctx context.Context) (driver.Store, error)

	// Prefix is put before every name, for a server that others use too.
	Prefix string

	// Anonymous says that this store has no place where it could keep who
	// holds a name. Without it the suite wants to be told.
	Anonymous bool

	// Slow triples the time after which an answer counts as missing, and
	// makes fewer requests where the number does not matter.
	Slow bool

	// Parallel is how many cases run side by side. 0 means 32.
	Parallel int

	// Advance moves the clock by which the store judges leases, for a store
	// that was opened with a clock of its own. Cases then run one by one. Nil
	// means that time passes by itself (in a testing/synctest bubble, too).
	Advance func(d time.Duration)

	// Restart ends the server as kill -9 does and starts it again, with its
	// data, as far as it is kept, or without.
	Restart func(keepData bool) error

	// CutConnection breaks the connections of s without a goodbye, as the
	// death of a process or of a router does. s may connect again.
	CutConnection func(s driver.Store) error

	// LoseReply makes the next request of s be carried out and its reply be
	// lost.
	LoseReply func(s driver.Store) error

	// Pause makes the server silent, as SIGSTOP does: connections stay open
	// and nothing is answered until resume is called.
	Pause func() (resume func() error, err error)

	// Full takes all free memory or disk space from the server, so that nothing
	// new can be stored, or gives it back.
	Full func(on bool) error

	// Foreign takes name as a program other than padlock does.
	Foreign func(name string) (release func() error, err error)

	// Logf, if set, is told what Check found and what it could not check. Run
	// tells the test's log.
	Logf func(format string, args ...any)
}

// Failure is a rule of the contract that a store broke.
type Failure struct {
	Case   string // name of the case
	Clause string // the rule
	Seen   string // what the store did instead
	At     string // file:line of the check
}

// String says all of it in three lines.
func (f Failure) String() string {
	return fmt.Sprintf("%s: %s\n\tseen: %s\n\tat:   %s", f.Case, f.Clause, f.Seen, f.At)
}

// Run checks the store, one subtest per case. It must not be called inside a
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
	r.each(func(k *testCase) {
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

// Check checks the store and returns what it broke, in the order of the table
// of cases; nothing if all is well. It may be called inside a testing/synctest
// bubble, and outside of tests.
func Check(h Harness) []Failure { return checkSome(h, nil) }

// checkSome leaves out the cases that some, if it is not nil, says no to.
func checkSome(h Harness, some func(name string) bool) []Failure {
	r, err := start(h)
	if err != nil {
		return []Failure{{Case: "open", Clause: "A store can be opened.", Seen: err.Error(), At: "Harness.Open"}}
	}
	var mu sync.Mutex
	found := make(map[string][]Failure)
	r.each(func(k *testCase) {
		if some != nil && !some(k.name) {
			return
		}
		fs := r.perform(k)
		mu.Lock()
		defer mu.Unlock()
		found[k.name] = fs
	})
	var out []Failure
	for i := range table {
		out = append(out, found[table[i].name]...)
	}
	if h.Logf != nil {
		h.Logf("%s", r.summary())
	}
	return append(out, r.finish()...)
}
