package drivertest

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// stood is the stillness of a process that stood still for so long.
type stood time.Duration

const (
	never  stood = 0
	always       = stood(time.Hour)
)

func (s stood) longest() time.Duration { return time.Duration(s) }
func (s stood) end()                   {}

// stalls returns how much longer the ways of requests take on a busy machine.
func stalls(seed uint64) func() time.Duration {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		switch n := random.IntN(100); {
		case n < 2:
			return time.Duration(random.IntN(1500)) * time.Millisecond
		case n < 12:
			return time.Duration(random.IntN(60)) * time.Millisecond
		}
		return 0
	}
}

// TestBusyMachine runs the suite on a machine that stalls now and then. No right store fails
// because of that. The kinds of stores run one after the other, because the bubbles share the clock
// of package driver.
func TestBusyMachine(t *testing.T) {
	server.Thorough(t)
	for kind, change := range rightStores {
		t.Run(kind, func(t *testing.T) {
			for seed := range uint64(3) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld("")
					change(w)
					w.stall = stalls(seed)
					r := begin(t, w.harness())
					r.stillness = func() stillness { return stood(3 * time.Second) }
					r.forEachCase(func(k *testCase) {
						for _, f := range r.perform(k) {
							t.Errorf("seed %d: %v", seed, f)
						}
					})
				})
			}
		})
	}
}

// An overloaded store has no answer to the first requests of a case.
type overloaded struct {
	driver.Store
	left  *atomic.Int64
	after time.Duration // how long the store waits for the answer
}

func (s overloaded) Unwrap() driver.Store { return s.Store }

func (s overloaded) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if s.left.Add(-1) >= 0 {
		<-time.After(s.after)
		return driver.Grant{}, driver.ErrUnavailable
	}
	return s.Store.Acquire(ctx, r)
}

// TestNoAnswer: on a slow machine, a case runs again if the store had no answer. It fails on a
// machine that is not slow, and if the store never has an answer. If the store waited long for the
// answer, the case runs again, and fails if that happens each time.
func TestNoAnswer(t *testing.T) {
	for _, c := range []struct {
		machine stood
		silent  int64 // how many requests get no answer
		after   time.Duration
		fails   bool
	}{
		{always, 3, 0, false},
		{never, 3, 0, true},
		{always, 1000, 0, true},
		{never, 1, 4500 * time.Millisecond, false},
		{never, 1, leastWait, false}, // stores give up a silent member soon
		{never, 1, leastWait - time.Millisecond, true},
		{never, 1000, leastWait, true},
		{never, 1000, 4500 * time.Millisecond, true},
	} {
		for _, name := range []string{"acquire/free", "crowd/exclusive"} {
			synctest.Test(t, func(t *testing.T) {
				var left atomic.Int64
				r := begin(t, around(newWorld("").harness(), func(s driver.Store) driver.Store { return overloaded{s, &left, c.after} }))
				r.stillness = func() stillness { return c.machine }
				left.Store(c.silent)
				if failures := r.perform(caseOf(t, name)); (len(failures) > 0) != c.fails {
					t.Errorf("%s: stood still for %v, %d requests without an answer after %v: %v", name, c.machine.longest(), c.silent, c.after, failures)
				}
			})
		}
	}
}

// TestUnseenDelay: the suite does not see every delay. If a store is a little too late, the case
// runs again, and fails if the store is late each time. A store that is late by seconds is wrong.
func TestUnseenDelay(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		late  int // the number of attempts in which the store is late
		fails bool
	}{{driver.MaxReservation, 2, false}, {driver.MaxReservation, 3, true}, {driver.MaxSilence, 1, true}} {
		r, attempts := begin(t, newWorld("").harness()), 0
		r.stillness = func() stillness { return never }
		k := testCase{name: "x", f: func(k *check) {
			if attempts++; attempts <= c.late {
				k.failLate(c.limit, "late")
			}
		}}
		if failures := r.perform(&k); (len(failures) > 0) != c.fails {
			t.Errorf("late by more than %v in %d attempts: %v", c.limit, c.late, failures)
		}
	}
}

// TestSilenceInADisturbance: in a case that disturbs the server, too, a slow machine may be the
// reason for a call without an answer, but not if the store gives up at once or in each attempt.
func TestSilenceInADisturbance(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		vain  int // the number of attempts in which a call has no answer
		fails bool
	}{{4500 * time.Millisecond, 2, false}, {4500 * time.Millisecond, 3, true}, {leastWait, 2, false}, {leastWait - 1, 1, true}} {
		r, attempts := begin(t, newWorld("").harness()), 0
		r.stillness = func() stillness { return never }
		k := testCase{name: "x", alone: true, f: func(k *check) {
			if attempts++; attempts <= c.vain {
				k.unheard = c.after
				k.failf("Release: %v", driver.ErrUncertain)
			}
		}}
		if failures := r.perform(&k); (len(failures) > 0) != c.fails {
			t.Errorf("no answer after %v in %d attempts: %v", c.after, c.vain, failures)
		}
	}
}

// TestWaitWithoutAnswer: a Wait that the store gave up counts as the call of any other method does.
// A store that gives up at once shows no slow machine, even in a Wait.
func TestWaitWithoutAnswer(t *testing.T) {
	for after, fails := range map[time.Duration]bool{leastWait: false, 0: true} {
		synctest.Test(t, func(t *testing.T) {
			var left atomic.Int64
			r := begin(t, around(newWorld("").harness(), func(s driver.Store) driver.Store {
				return deafWaiter{overloaded{s, &left, after}}
			}))
			r.stillness = func() stillness { return never }
			left.Store(1)
			if failures := r.perform(caseOf(t, "queue/first-come")); (len(failures) > 0) != fails {
				t.Errorf("a Wait without an answer after %v: %v", after, failures)
			}
		})
	}
}

// A deafWaiter has no answer to the first calls of Wait.
type deafWaiter struct{ overloaded }

func (s deafWaiter) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return s.Store.Acquire(ctx, r)
}

func (s deafWaiter) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if s.left.Add(-1) >= 0 {
		<-time.After(s.after)
		return driver.Grant{}, driver.ErrUnavailable
	}
	return ability[driver.Waiter](s.Store).Wait(ctx, r, reserve)
}

// TestLateCallsOfOthers: if calls of other cases were late, the store may have given up the server,
// and then it has no answer at once.
func TestLateCallsOfOthers(t *testing.T) {
	for _, c := range []struct {
		late, fails bool
	}{{true, false}, {false, true}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld("")
			r, attempts := begin(t, w.harness()), 0
			r.stillness = func() stillness { return never }
			other := r.newCheck(caseOf(t, "acquire/free"), r.unit)
			defer other.end()
			k := testCase{name: "x", f: func(k *check) {
				if attempts++; attempts > 1 {
					return
				}
				if c.late {
					w.trip = driver.MaxSilence / 4
					other.a.Extend(other.ctx, "name", newToken(), 0)
					w.trip = 0
				}
				k.errorf("Acquire: %v", driver.ErrUnavailable)
			}}
			if failures := r.perform(&k); (len(failures) > 0) != c.fails {
				t.Errorf("another call was late: %v; %v", c.late, failures)
			}
		})
	}
}

// TestUnansweredCall: a call that has no reply yet shows that the machine is slow.
func TestUnansweredCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("")
		r := begin(t, w.harness())
		w.trip = time.Second
		r.stillness = func() stillness { return never }
		c := r.newCheck(caseOf(t, "acquire/free"), r.unit)
		go c.a.Extend(c.ctx, "name", newToken(), 0)
		<-time.After(time.Second)
		if d := c.delay(); d != time.Second {
			t.Errorf("a second after the request, the delay is %v", d)
		}
		c.end()
	})
}

// TestEndAfterALateReply: a store may decide at any time between Grant.From and its reply. So a
// lease is over for certain only when its length has passed since the reply.
func TestEndAfterALateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, late = time.Second, 300 * time.Millisecond
		c := begin(t, newWorld("").harness()).newCheck(caseOf(t, "acquire/free"), time.Second)
		defer c.still.end()
		defer c.end()
		sent, g := time.Now(), driver.Grant{TTL: ttl, From: driver.SystemClock().Now()}
		<-time.After(late)
		l := c.leased(c.a, c.request("name"), g, sent)
		if live, gone := l.liveUntil.Sub(sent), l.goneAfter.Sub(sent); live != ttl || gone != ttl+late {
			t.Errorf("the lease is live for %v and over after %v", live, gone)
		}
	})
}

// caseOf returns a case of the table.
func caseOf(t *testing.T, name string) *testCase {
	t.Helper()
	for i := range table {
		if table[i].name == name {
			return &table[i]
		}
	}
	t.Fatalf("no case %s", name)
	return nil
}

// begin starts a run that ends with the test.
func begin(t *testing.T, h Harness) *run {
	t.Helper()
	r, err := start(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.finish() })
	return r
}

// mayRunAgain are the cases that find some bugs only because something comes too late, or in the
// wrong order. On a busy machine these cases run again. All other cases show that a store is wrong
// even if the machine stands still all the time.
const mayRunAgain = `acquire/never-queues acquire/refused-again lost-reply/refused break/ends-holds close/ends-waits
	demote/keeps-fence extend/abandoned extend/never-shortens extend/verify fence/above inspect/free
	full/batch full/loses-nothing giveup/during-a-long-wait giveup/silence limits/holder
	lost/evicted lost/expired lost/expired-and-taken lost/foreign-token lost/nobody lost/other-name lost/released lost/released-and-taken lost/replaced
	pass/queue-first promote/conflict promote/intent promote/intent-ends
	queue/counted queue/dead-waiter queue/first-come queue/lost-process queue/no-overtaking
	queue/readers-wait-behind-writers reserve/lapses reserve/release
	wait/cooldown-in-time wait/foreign wait/missed-wake-up wait/readers wait/release-meanwhile wait/release-wakes wait/wakes`

// TestBusyMachineHidesNoBug runs each case on a machine that always stands still. The store is
// wrong only in the first attempt at each case. So if the suite drops a failure and runs the case
// again, the bug is not found.
func TestBusyMachineHidesNoBug(t *testing.T) {
	if raceDetector {
		t.Skip("the bug of a store changes while goroutines of the last attempt may still read it")
	}
	again, needed := strings.Fields(mayRunAgain), make(map[string]bool)
	var mu sync.Mutex
	t.Run("bugs", func(t *testing.T) {
		for b, list := range broken {
			t.Run(string(b), func(t *testing.T) {
				t.Parallel()
				want, _ := expected(list)
				found := foundAtOnce(t, b, func(name string) bool {
					return slices.Contains(want, name) || strings.Contains(list, "answers/")
				})
				for _, name := range want {
					if slices.Contains(found, name) {
						continue
					}
					if !slices.Contains(again, name) {
						t.Errorf("%s fails at first, but the failure is dropped", name)
					}
					mu.Lock()
					needed[name] = true
					mu.Unlock()
				}
			})
		}
	})
	for _, name := range again {
		if !needed[name] {
			t.Errorf("%s always finds its bugs at once: it need not be in the list", name)
		}
	}
}

// TestCoarseClock: a store that counts whole tenths of a second, and rounds them wrongly, ends some
// leases up to a tenth of a second early. Cases that begin at different moments find that, even on
// a machine that always stands still.
func TestCoarseClock(t *testing.T) {
	t.Parallel()
	early := map[string]bool{}
	for shift := range 4 {
		coarse := func() *world {
			w := newWorld("")
			w.g.MinTTL = 300 * time.Millisecond
			w.now = func() time.Time {
				return time.Now().Add(time.Duration(shift) * 25 * time.Millisecond).Truncate(100 * time.Millisecond).Add(100 * time.Millisecond)
			}
			return w
		}
		for _, f := range failing(t, coarse, nil, always) {
			if strings.HasPrefix(f.Seen, safety.ErrTooEarly("").Error()) {
				early[f.Case] = true
			}
		}
	}
	if len(early) < 10 {
		t.Errorf("only these cases say that a lease ended too early: %q", slices.Sorted(maps.Keys(early)))
	}
}

// foundAtOnce returns the cases that fail if the store has the bug in the first attempt only.
func foundAtOnce(t *testing.T, b bug, some func(string) bool) (found []string) {
	synctest.Test(t, func(t *testing.T) {
		w := brokenWorld(b)
		h := w.harness()
		h.Parallel = 1
		r := begin(t, h)
		attempts := 0
		r.stillness = func() stillness {
			if attempts++; attempts > 1 {
				w.bug = ""
			}
			return always
		}
		r.forEachCase(func(k *testCase) {
			if some(k.name) {
				attempts, w.bug = 0, b
				found = append(found, names(r.perform(k))...)
			}
		})
		close(w.leak)
	})
	return found
}
