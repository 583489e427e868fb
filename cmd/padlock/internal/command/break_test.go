package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// breakRow is one situation in which an operator breaks a lock.
type breakRow struct {
	name   string                                       // of the lock; "" is "deploy"
	hold   func(t *testing.T, l *padlock.Locker)        // makes the situation
	store  func(s kept, l *padlock.Locker) driver.Store // the store that break uses; nil is s
	set    breaking
	fence  int // added to the fence of the name; -1 means that --fence is not given
	status int
	says   string
}

const unfenced = -1

func acquire(names ...string) func(*testing.T, *padlock.Locker) {
	return func(t *testing.T, l *padlock.Locker) {
		for _, name := range names {
			if _, err := l.Acquire(t.Context(), name, padlock.NoRenewal(), padlock.Label("job")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func share(t *testing.T, l *padlock.Locker) {
	for range 2 {
		if _, err := l.Acquire(t.Context(), "deploy", padlock.NoRenewal(), padlock.Shared(), padlock.Label("job")); err != nil {
			t.Fatal(err)
		}
	}
}

func end(coolDown time.Duration) func(*testing.T, *padlock.Locker) {
	return func(t *testing.T, l *padlock.Locker) {
		lock, err := l.Acquire(t.Context(), "deploy", padlock.CoolDown(coolDown))
		if err == nil {
			err = lock.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// racing is a store in which something happens between the look of break and its request.
type racing struct {
	kept
	meanwhile func()
}

func (r racing) Break(ctx context.Context, name string, seen uint64) (uint64, error) {
	r.meanwhile()
	return r.kept.Break(ctx, name, seen)
}

// changed breaks the hold first, as another operator may do, and then calls next.
func changed(next func(l *padlock.Locker)) func(kept, *padlock.Locker) driver.Store {
	return func(s kept, l *padlock.Locker) driver.Store {
		return racing{s, func() {
			st, _ := l.Inspect(context.Background(), "deploy")
			_, _ = l.Break(context.Background(), "deploy", st.Fence)
			next(l)
		}}
	}
}

// foreign is a store whose holds belong to another program, and have no fence.
func foreign(s kept, _ *padlock.Locker) driver.Store {
	return inspected{s, driver.State{Name: "deploy", Holds: []driver.Hold{{Foreign: true}}}}
}

type inspected struct {
	kept
	state driver.State
}

func (i inspected) Inspect(context.Context, string) (driver.State, error) { return i.state, nil }

// listed is a store that lists its names.
func listed(s kept, _ *padlock.Locker) driver.Store {
	s.lists = true
	return s
}

// breaksNothing is a store that only inspects, in which a hold ends with something.
type breaksNothing struct {
	driver.Store
	driver.Admin
	bound driver.Bound
}

func (b breaksNothing) Close() error { return nil }

func (b breaksNothing) Guarantees() driver.Guarantees {
	return driver.Guarantees{Bound: b.bound, Lease: b.bound == driver.BoundToNothing, Lacks: driver.AbilityList | driver.AbilityBreak}
}

func without(bound driver.Bound) func(kept, *padlock.Locker) driver.Store {
	return func(s kept, _ *padlock.Locker) driver.Store { return breaksNothing{s.Store, s.Admin, bound} }
}

// connected is a store whose holds end with a connection and have no lease, as ZooKeeper's.
func connected(s kept, _ *padlock.Locker) driver.Store {
	return withBound{inspected{s, driver.State{Name: "deploy", Fence: 1, Holds: []driver.Hold{{Holder: driver.Holder{PID: 7}}}}}}
}

type withBound struct{ inspected }

func (withBound) Guarantees() driver.Guarantees {
	return driver.Guarantees{Bound: driver.BoundToConnection}
}

func (withBound) Break(context.Context, string, uint64) (uint64, error) { return 2, nil }

// Each situation in which an operator breaks a lock has a message of its own.
func TestBreakOutcomes(t *testing.T) {
	t.Parallel()
	none := func(*testing.T, *padlock.Locker) {}
	for what, c := range map[string]breakRow{
		"never used":                       {hold: none, fence: unfenced, says: "^deploy is free; there is nothing to break$"},
		"never used, with a fence":         {hold: none, fence: 7, says: "^deploy is free; there is nothing to break$"},
		"released, with its fence":         {hold: end(0), fence: 0, says: "^deploy is free; there is nothing to break$"},
		"released, with an older fence":    {hold: end(0), fence: 7, says: "^deploy is free; there is nothing to break$"},
		"held":                             {hold: acquire("deploy"), fence: 0, says: `^deploy is broken: it was held by .* \(job\)`},
		"held, with an older fence":        {hold: acquire("deploy"), fence: 7, status: exitHeld, says: `^deploy has changed hands: its fence is [0-9]+ now; nothing was broken \(see padlock status deploy\)$`},
		"held, without a terminal":         {hold: acquire("deploy"), fence: unfenced, status: exitUsage, says: `there is no terminal to ask on; to break it: padlock break --fence [0-9]+ deploy$`},
		"held, with --yes":                 {hold: acquire("deploy"), fence: unfenced, set: breaking{yes: true}, says: `^deploy is broken`},
		"shared":                           {hold: share, fence: 0, says: `^deploy is broken: it was held by .*, shared`},
		"shared, with an older fence":      {hold: share, fence: 7, status: exitHeld, says: `^deploy has changed hands`},
		"a cool-down":                      {hold: end(time.Minute), fence: 0, says: `^deploy is broken: it was cooling down until `},
		"a cool-down, with another fence":  {hold: end(time.Minute), fence: 7, status: exitHeld, says: `^deploy has changed hands`},
		"a permit":                         {name: fast.SlotName("deploy", 3), hold: acquire(fast.SlotName("deploy", 3)), fence: 0, says: `^slot 3 of deploy is broken`},
		"a permit, with another fence":     {name: fast.SlotName("deploy", 3), hold: acquire(fast.SlotName("deploy", 3)), fence: 7, status: exitHeld, says: `^slot 3 of deploy has changed hands: .*\(see padlock status deploy\)$`},
		"a free permit":                    {name: fast.SlotName("deploy", 3), hold: none, fence: 7, says: `^slot 3 of deploy is free; there is nothing to break$`},
		"a lock with permits":              {hold: acquire(fast.SlotName("deploy", 3)), store: listed, fence: 7, says: `^deploy is free; there is nothing to break, but 1 slot is held; to break one: padlock break --slot N deploy$`},
		"freed meanwhile":                  {hold: acquire("deploy"), store: changed(func(*padlock.Locker) {}), fence: 0, says: "^deploy is free; there is nothing to break$"},
		"taken by another one meanwhile":   {hold: acquire("deploy"), store: changed(func(l *padlock.Locker) { acquire("deploy")(t, l) }), fence: 0, status: exitHeld, says: "^deploy has changed hands: its fence is [0-9]+ now"},
		"held by PHP, with a fence":        {hold: none, store: foreign, fence: 7, status: exitHeld, says: `^deploy is held by a program other than padlock; this hold has no fence to compare, so nothing was broken \(to break whatever hold there is: padlock break --yes deploy\)$`},
		"held in ZooKeeper":                {hold: none, store: connected, fence: 1, says: `^deploy is broken`},
		"bound to a process":               {hold: acquire("deploy"), store: without(driver.BoundToProcess), fence: 0, status: exitUsage, says: `^deploy cannot be broken: the lock ends only when its processes end; end process [0-9]+$`},
		"bound to a connection":            {hold: acquire("deploy"), store: without(driver.BoundToConnection), fence: 0, status: exitUsage, says: `^deploy cannot be broken: the lock ends only when its holder's connection to the server ends; end process [0-9]+$`},
		"a lease in a store without break": {hold: acquire("deploy"), store: without(driver.BoundToNothing), fence: 0, status: exitUsage, says: `^deploy cannot be broken: this store breaks no locks; the lease ends by itself until .*; end process [0-9]+$`},
	} {
		t.Run(what, func(t *testing.T) {
			if c.name == "" {
				c.name = "deploy"
			}
			status, text := breakIn(t, &c)
			if status != c.status || !regexp.MustCompile(c.says).MatchString(text) {
				t.Errorf("status %d, %q; want status %d, %s", status, text, c.status, c.says)
			}
		})
	}
}

// breakIn makes a situation, breaks the lock and returns the exit status and the message.
func breakIn(t *testing.T, c *breakRow) (status int, text string) {
	t.Helper()
	s := inMemory(t)
	l := padlock.New(s)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	c.hold(t, l)
	st, err := l.Inspect(t.Context(), c.name)
	if err != nil {
		t.Fatal(err)
	}
	used := driver.Store(s)
	if c.store != nil {
		used = c.store(s, l)
	}
	p := opening(used)
	set := c.set
	set.slot = -1
	name := c.name
	if base, number, ok := fast.SplitSlot(name); ok {
		name, set.slot = base, number
	}
	if c.fence != unfenced {
		set.fenced, set.fence = true, st.Fence+uint64(c.fence)
	}
	var out bytes.Buffer
	a := &app{program: p, stdout: &out, stderr: io.Discard}
	err = a.breakLock(t.Context(), &set, name)
	var f *failure
	switch {
	case errors.As(err, &f):
		return f.status, f.Error()
	case err != nil:
		t.Fatal(err)
	}
	return 0, strings.TrimSpace(out.String())
}
