package several

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
	"github.com/padlock-go/padlock/stores/memstore"
)

var delays = flag.Int("delays", 1, "how many questions TestAskDelay asks on each store; with 20, its table is that of docs/internals/performance.md")

// askedStores are the stores of the table, each with a function that starts its servers, and returns another that
// opens the store as a process would. The argument padlock is the command.
var askedStores = []struct {
	name string
	open func(t *testing.T, padlock string) func(context.Context) (driver.Store, error)
}{
	{"memory", func(*testing.T, string) func(context.Context) (driver.Store, error) {
		s := memstore.New()
		return func(context.Context) (driver.Store, error) { return s.Open(), nil }
	}},
	{"file", at(func(t *testing.T, _ string) string { return "file://" + t.TempDir() })},
	{"SQLite", at(func(t *testing.T, _ string) string { return "sqlite://" + filepath.Join(t.TempDir(), "locks.db") })},
	{"Redis", at(func(t *testing.T, _ string) string { return "redis://" + server.Redis(t, server.RedisOptions{}).Addr() })},
	{"PostgreSQL", at(func(t *testing.T, _ string) string { return server.Postgres(t, server.PostgresOptions{}).URL() })},
	{"MariaDB", at(func(t *testing.T, _ string) string { return "mysql://root@" + server.MariaDB(t).Addr() + "/mysql" })},
	{"etcd", at(func(t *testing.T, _ string) string {
		return "etcd://" + server.Etcd(t, server.EtcdOptions{}).Addr() + "/"
	})},
	{"HTTP to Redis", at(func(t *testing.T, padlock string) string {
		return overHTTP(t, padlock, "redis://"+server.Redis(t, server.RedisOptions{}).Addr())
	})},
	{"HTTP to PostgreSQL", at(func(t *testing.T, padlock string) string {
		return overHTTP(t, padlock, server.Postgres(t, server.PostgresOptions{}).URL())
	})},
}

func at(url func(t *testing.T, padlock string) string) func(t *testing.T, padlock string) func(context.Context) (driver.Store, error) {
	return func(t *testing.T, padlock string) func(context.Context) (driver.Store, error) {
		t.Helper()
		url := url(t, padlock)
		return func(ctx context.Context) (driver.Store, error) { return all.Store(ctx, url) }
	}
}

// overHTTP starts a server of padlock for a store, and returns the URL of its clients.
func overHTTP(t *testing.T, padlock, store string) string {
	t.Helper()
	return "padlock+" + server.Padlock(t, padlock, store).URL() + "/"
}

// TestAskDelay measures on each store how long it takes from the beginning of Ask until the holder
// knows, and how long the request of a look takes. It also counts what the store is asked for.
func TestAskDelay(t *testing.T) {
	t.Parallel()
	padlock, err := server.BuildPadlock(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]string, len(askedStores))
	t.Cleanup(func() {
		if *delays > 1 {
			fmt.Printf("| store | known after: median | worst | a look takes |\n|---|---|---|---|\n%s\n", strings.Join(slices.DeleteFunc(rows, func(row string) bool { return row == "" }), "\n"))
		}
	})
	for i, s := range askedStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			known, look := measureDelay(t, s.open(t, padlock))
			rows[i] = fmt.Sprintf("| %s | %s | %s | %s |", s.name, short(middle(known)), short(slices.Max(known)), short(look))
		})
	}
}

// measureDelay asks a holder *delays times, at a random time between two of its looks.
func measureDelay(t *testing.T, open func(context.Context) (driver.Store, error)) (known []time.Duration, look time.Duration) {
	t.Helper()
	store, asker := opened(t, open), opened(t, open)
	admin, ok := driver.As[driver.Admin](store)
	if !ok {
		t.Fatal("nobody can look at this store")
	}
	holder := &counted{Store: store, Admin: admin}
	l, other := padlock.New(holder), padlock.New(asker)
	t.Cleanup(func() {
		if err := errors.Join(l.Close(context.Background()), other.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	for i := range *delays {
		job := fmt.Sprint(name("delay"), "-", i)
		k, err := l.Acquire(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		if n := holder.looks.Load(); n != 0 {
			t.Fatalf("a holder that does not look sends %d looks", n)
		}
		asked := padlock.Asked(k.Context())
		<-time.After(rand.N(time.Second))
		began := time.Now()
		if _, err := other.Ask(t.Context(), job, "measured"); err != nil {
			t.Fatal(err)
		}
		<-asked
		known = append(known, time.Since(began))
		took := time.Since(began) / time.Second
		if n := holder.looks.Swap(0); n < 1 || n > int64(took)+3 {
			t.Errorf("a holder that looks for less than %v sends %d looks", took+2, n)
		}
		if err := k.Release(); err != nil {
			t.Fatal(err)
		}
	}
	return known, middle(holder.took)
}

func opened(t *testing.T, open func(context.Context) (driver.Store, error)) driver.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// counted counts the looks of a holder, and measures them.
type counted struct {
	driver.Store
	driver.Admin
	looks atomic.Int64
	took  []time.Duration
}

func (c *counted) Inspect(ctx context.Context, name string) (driver.State, error) {
	began := time.Now()
	s, err := c.Admin.Inspect(ctx, name)
	c.looks.Add(1)
	c.took = append(c.took, time.Since(began))
	return s, err
}

func middle(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
