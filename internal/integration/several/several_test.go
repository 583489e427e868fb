package several

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
)

// ttl is short, because a test waits for the lease of a process that was killed.
const ttl = 6 * time.Second

// stores are the URLs of all stores that several processes can share. All URLs of one server are in
// one entry.
var stores = map[string]func(t *testing.T) map[string]string{
	"this machine": func(t *testing.T) map[string]string {
		return map[string]string{
			"file": "file://" + t.TempDir(), "sqlite": "sqlite://" + filepath.Join(t.TempDir(), "locks.db"),
			"semaphore": "semaphore:?hash=xxh128",
		}
	},
	"redis": func(t *testing.T) map[string]string {
		s := server.Redis(t, server.RedisOptions{})
		return map[string]string{"redis": "redis://" + s.Addr(), "redis string": "redis://" + s.Addr() + "?layout=string&prefix=s:"}
	},
	"postgres": func(t *testing.T) map[string]string {
		url := server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "max_connections=200"}}).URL()
		_, rest, _ := strings.Cut(url, "://")
		return map[string]string{"postgres": url, "postgres advisory": "postgres+advisory://" + rest}
	},
	"mariadb": func(t *testing.T) map[string]string {
		at := "root@" + server.MariaDB(t).Addr() + "/mysql"
		return map[string]string{"mysql": "mysql://" + at, "mysql advisory": "mysql+advisory://" + at}
	},
	"memcached": func(t *testing.T) map[string]string {
		return map[string]string{"memcached": server.Memcached(t).URL()}
	},
	"zookeeper": func(t *testing.T) map[string]string {
		return map[string]string{"zookeeper": "zookeeper://" + server.ZooKeeper(t, server.ZooKeeperOptions{}).Addr() + "/locks"}
	},
	"etcd": func(t *testing.T) map[string]string {
		return map[string]string{"etcd": "etcd://" + server.Etcd(t, server.EtcdOptions{}).Addr() + "/"}
	},
}

// TestEveryStore runs each test on each store.
func TestEveryStore(t *testing.T) {
	t.Parallel()
	for place, start := range stores {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			for name, url := range start(t) {
				s := site{url}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					t.Run("ask", s.ask)
					t.Run("newest", s.newest)
					t.Run("slots", s.slots)
					t.Run("paths", s.paths)
					t.Run("weights", s.weights)
					if place == "redis" { // the gate's lease of a second must not end while a slower store is busy
						t.Run("weights in order", s.weightsInOrder)
					}
					t.Run("dagster 32560, permits of a dead process leak", s.dagster32560)
					t.Run("skupper 1646, the elector returns and nobody campaigns again", s.skupper1646)
					t.Run("Redisson 1160, two multi-locks wait for each other", s.redisson1160)
				})
			}
		})
	}
}

// site is a store.
type site struct{ url string }

// locker opens the store as another process would.
func (s site) locker(t *testing.T) *padlock.Locker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, err := all.Store(ctx, s.url)
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store, padlock.TTL(ttl))
	t.Cleanup(func() {
		end, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(end); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// name is different in each run, because System V semaphores outlive the test.
func name(what string) string { return fmt.Sprintf("%s-%d", what, os.Getpid()) }

func (s site) slots(t *testing.T) {
	const slots, callers, turns = 3, 8, 3
	job := name("slots")
	lockers := []*padlock.Locker{s.locker(t), s.locker(t)}
	var inside [slots]atomic.Pointer[padlock.Lock] // of the caller that has the permit
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range turns {
				k, err := lockers[i%2].Acquire(t.Context(), job, padlock.Slots(slots))
				if err != nil {
					t.Error(err)
					return
				}
				if other := inside[k.Slot()].Swap(k); other != nil && other.Remaining() > 0 && k.Remaining() > 0 {
					safety.TwoHold(t, "two callers have permit %d", k.Slot())
				}
				<-time.After(5 * time.Millisecond)
				inside[k.Slot()].CompareAndSwap(k, nil)
				if err := k.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range slots {
		k, err := lockers[i%2].TryAcquire(t.Context(), job, padlock.Slots(slots))
		if err != nil {
			t.Fatalf("permit %d of a free name: %v", i, err)
		}
		defer k.Release()
	}
	_, err := lockers[0].TryAcquire(t.Context(), job, padlock.Slots(slots))
	if !errors.Is(err, padlock.ErrHeld) {
		t.Errorf("a fourth caller gets %v", err)
	}
}

// childEnv has the URL and the name for a process that takes permits and is killed.
const childEnv = "PADLOCK_TEST_PERMITS"

func TestMain(m *testing.M) {
	if url, job, ok := strings.Cut(os.Getenv(childEnv), " "); ok {
		holdPermits(url, job)
	}
	os.Exit(m.Run())
}

// holdPermits takes both permits of job and waits to be killed.
func holdPermits(url, job string) {
	ctx := context.Background()
	store, err := all.Store(ctx, url)
	if err == nil {
		l := padlock.New(store, padlock.TTL(ttl), padlock.Slots(2))
		if _, err = l.TryAcquire(ctx, job); err == nil {
			_, err = l.TryAcquire(ctx, job)
		}
	}
	fmt.Println(err)
	select {}
}

// A semaphore that only counts does not get the permits of a dead process back.
func (s site) dagster32560(t *testing.T) {
	job := name("dagster")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+s.url+" "+job)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	l := s.locker(t)
	_, held := l.TryAcquire(t.Context(), job, padlock.Slots(2))
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	cmd.Wait() // killed
	if said != "<nil>\n" || err != nil || !errors.Is(held, padlock.ErrHeld) {
		t.Fatalf("the other process says %q, %v; meanwhile a third caller gets %v", said, err, held)
	}
	for range 2 {
		k, err := l.Acquire(t.Context(), job, padlock.Slots(2), padlock.Wait(time.Minute))
		if err != nil {
			t.Fatalf("a permit of the dead process: %v", err)
		}
		defer k.Release()
	}
}

// An elector that returns when the lead is lost leaves nobody who campaigns. Here each lead ends
// after a short time, and each candidate leads again and again.
func (s site) skupper1646(t *testing.T) {
	const leads = 3
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	var leading atomic.Int32
	var led [2]atomic.Int32
	var wg sync.WaitGroup
	for i := range led {
		e := election.New(s.locker(t), name("scheduler"), s.backOff(t),
			election.LockOptions(padlock.HoldAtMost(100*time.Millisecond)))
		wg.Go(func() {
			err := e.Run(ctx, func(lead context.Context) error {
				if leading.Add(1) != 1 {
					safety.TwoHold(t, "there are two leaders")
				}
				<-lead.Done()
				leading.Add(-1)
				if led[i].Add(1); led[0].Load() >= leads && led[1].Load() >= leads {
					stop()
				}
				return lead.Err()
			})
			if n := led[i].Load(); err != nil || n < leads { // stop has ended ctx, and not its time limit
				t.Errorf("Run of candidate %d returns %v after %d leads", i, err, n)
			}
		})
	}
	wg.Wait()
}

// backOff returns the pause of a candidate after its lead. If the store has no queue, the other
// candidate tries once a second, and the lead has to be free for longer than that. Otherwise chance
// decides when the other candidate leads.
func (s site) backOff(t *testing.T) election.Option {
	t.Helper()
	store, err := all.Store(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if store.Guarantees().FIFO {
		return election.BackOff(time.Millisecond, 20*time.Millisecond)
	}
	return election.BackOff(1500*time.Millisecond, 2*time.Second)
}

// Callers take the same names in different orders.
func (s site) redisson1160(t *testing.T) {
	const turns = 6
	a, b, c := name("a"), name("b"), name("c")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var inside atomic.Pointer[context.Context] // of the caller that has the names
	var wg sync.WaitGroup
	for _, names := range [][]string{{a, b, c}, {c, b, a}, {b, c, a}, {a, c, b}} {
		l := s.locker(t)
		wg.Go(func() {
			for range turns {
				err := l.DoAll(ctx, names, func(mine context.Context) error {
					if other := inside.Swap(&mine); other != nil && (*other).Err() == nil && mine.Err() == nil {
						safety.TwoHold(t, "two callers have the same names")
					}
					<-time.After(time.Millisecond) // the others queue up meanwhile
					inside.CompareAndSwap(&mine, nil)
					return nil
				})
				if err != nil {
					t.Errorf("%v: %v", names, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
