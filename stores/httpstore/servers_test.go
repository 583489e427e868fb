package httpstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/memstore"
)

func request(name, token string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: 30 * time.Second, Holder: driver.Holder{Host: "web-3", PID: 4121, Label: "report"}}
}

const one, two = "token-one-0123456789", "token-two-0123456789"

// Two servers offer one store, and are killed in turn. Locks survive, nobody works at the same time
// as another, and the fences grow.
func TestServersAreKilledInTurn(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	memory := memstore.New()
	servers := []*service{serve(t, memory.Open()), serve(t, memory.Open())}
	var inside, last atomic.Int64
	var wg sync.WaitGroup
	over, done := context.WithCancel(t.Context())
	defer done()
	var turns [4]atomic.Int64
	for i := range turns {
		locker := padlock.New(open(t, servers[i%2], servers[1-i%2]), padlock.KeepStoreOpen())
		wg.Go(func() {
			for over.Err() == nil {
				lock, err := locker.Acquire(over, "name")
				if err != nil {
					continue
				}
				if inside.Add(1) != 1 {
					safety.TwoHold(t, "the lock has a holder already")
				}
				safety.Rises(t, int64(lock.Fence()), last.Swap(int64(lock.Fence())))
				turns[i].Add(1)
				inside.Add(-1)
				_ = lock.Release() // a lost reply is an error here; the lock ends
			}
			if err := locker.Close(context.WithoutCancel(over)); err != nil {
				t.Log(err)
			}
		})
	}
	starved := func() bool {
		for i := range turns {
			if turns[i].Load() == 0 {
				return true
			}
		}
		return false
	}
	begun := time.Now()
	for i := 0; i < 10 || starved() && time.Since(begun) < time.Minute; i++ {
		<-time.After(400 * time.Millisecond)
		servers[i%2].kill()
		servers[i%2].start(memory.Open())
	}
	done()
	wg.Wait()
	for i := range turns {
		n := turns[i].Load()
		if n == 0 {
			t.Errorf("client %d never had the lock", i)
		}
		t.Logf("client %d had the lock %d times", i, n)
	}
}

// A waiter keeps waiting while its server is down for a moment.
func TestWaitOutlivesRestart(t *testing.T) {
	t.Parallel()
	memory := memstore.New()
	s := serve(t, memory.Open())
	store := open(t, s)
	if _, err := store.Acquire(t.Context(), request("name", one)); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		g, err := store.Wait(t.Context(), request("name", two), true)
		if err == nil && g.TTL < 20*time.Second {
			err = fmt.Errorf("granted %+v", g)
		}
		got <- err
	}()
	waiting(t, memory)
	s.kill()
	s.start(memory.Open())
	waiting(t, memory)
	if out, err := store.Release(t.Context(), "name", one, 0); err != nil || out != driver.OutcomeReleased {
		t.Errorf("Release: %v, %v", out, err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// waiting returns when somebody waits for the name.
func waiting(t *testing.T, memory *memstore.Store) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		if s, err := memory.Inspect(t.Context(), "name"); err == nil && s.Waiters > 0 {
			return
		}
	}
	t.Fatal("nobody waits")
}

// A wait that its caller gives up leaves no place and no lock, whatever the server was doing.
func TestWaitGivenUp(t *testing.T) {
	t.Parallel()
	memory := memstore.New()
	store := open(t, serve(t, memory.Open()))
	for i := range 20 {
		one, two := fmt.Sprint(one, i), fmt.Sprint(two, i) // a token that has waited is spent
		if _, err := store.Acquire(t.Context(), request("name", one)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := store.Wait(ctx, request("name", two), true); ended <- err }()
		waiting(t, memory)
		go cancel()
		if _, err := store.Release(t.Context(), "name", one, 0); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			_, _ = store.Release(t.Context(), "name", two, 0) // the lock came first
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
		free(t, memory)
	}
}

// free waits until nobody holds the name or waits for it. After five seconds the server would
// forget a waiter by itself, so free waits for less. Time for which this machine stood still does
// not count.
func free(t *testing.T, memory *memstore.Store) {
	t.Helper()
	var s driver.State
	for awake := time.Duration(0); awake < 4*time.Second; {
		look := time.Now()
		if s, _ = memory.Inspect(t.Context(), "name"); len(s.Holds) == 0 && s.Waiters <= 0 {
			return
		}
		<-time.After(time.Millisecond)
		awake += min(time.Since(look), 20*time.Millisecond)
	}
	t.Fatalf("left over: %+v", s)
}

// A server that is down is skipped. If nobody listens anywhere, nothing was changed.
func TestServersDown(t *testing.T) {
	t.Parallel()
	memory := memstore.New()
	a, b := serve(t, memory.Open()), serve(t, memory.Open())
	store := open(t, a, b)
	for i, down := range []*service{a, b} {
		down.kill()
		if i == 1 {
			break
		}
		if _, err := store.Acquire(t.Context(), request("name", one)); err != nil && !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("with one server: %v", err) // a connection that broke leaves the first request open
		}
		if _, err := store.Acquire(t.Context(), request("name", one)); err != nil {
			t.Errorf("with one server: %v", err)
		}
	}
	var err error
	for range 2 {
		_, err = store.Acquire(t.Context(), request("name", one))
	}
	if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("without a server: %v", err)
	}
	if _, err := httpstore.Open(t.Context(), httpstore.Config{Servers: []string{a.url()}}); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Open without a server: %v", err)
	}
}

// Servers of two stores are a mistake that would give a name two holders.
func TestTwoStores(t *testing.T) {
	t.Parallel()
	a, b := serve(t, memstore.New()), serve(t, memstore.New())
	_, err := httpstore.Open(t.Context(), httpstore.Config{Servers: []string{a.url(), b.url()}})
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "different stores") {
		t.Errorf("Open: %v", err)
	}
	s, err := httpstore.Open(t.Context(), httpstore.Config{Servers: []string{a.url(), b.url()}}, httpstore.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found, err := s.Status(t.Context())
	if err != nil || len(found) != 2 || !strings.Contains(found[1].Advice, "two holders") {
		t.Errorf("Status: %+v, %v", found, err)
	}
}

// A server that cannot reach its store does not know the id of that store. This is no other store.
func TestUnknownStore(t *testing.T) {
	t.Parallel()
	memory := memstore.New()
	describes := func(id string) string {
		return at(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"store":"memory"%s}`, id) })
	}
	known, unknown, other := serve(t, memory).url(), describes(""), describes(`,"id":"other"`)
	id, err := memory.StoreID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, servers := range [][]string{{known, unknown}, {unknown, known}} {
		s, err := httpstore.Open(t.Context(), httpstore.Config{Servers: servers})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if got, err := s.StoreID(t.Context()); got != id || err != nil {
			t.Errorf("the store is %q, %v, want %q", got, err, id)
		}
		for i, f := range find(t, s) {
			if strings.Contains(f.Advice, "not known") != (servers[i] == unknown) || f.Value == driver.Unknown {
				t.Errorf("server %d: %+v", i, f)
			}
		}
	}
	for _, servers := range [][]string{{known, unknown, other}, {unknown, known, other}} {
		if _, err := httpstore.Open(t.Context(), httpstore.Config{Servers: servers}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Open with another store: %v", err)
		}
		if found := find(t, lazily(t, servers...)); !strings.Contains(found[2].Advice, "two holders") {
			t.Errorf("Status: %+v", found)
		}
	}
}

func find(t *testing.T, s *httpstore.Store) []driver.Finding {
	t.Helper()
	found, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The token decides which abilities the store has. The promises say so.
func TestRights(t *testing.T) {
	t.Parallel()
	s := serve(t, memstore.New(), padlockapi.Authorize(func(r *http.Request) padlockapi.Visitor {
		switch r.Header.Get("Authorization") {
		case "Bearer worker":
			return padlockapi.Visitor{Name: "worker", Acquire: true}
		case "Bearer tenant":
			return padlockapi.Visitor{Name: "tenant", Acquire: true, Read: true, Tenant: true, Prefix: "t:"}
		}
		return padlockapi.Visitor{}
	}))
	as := func(token string) (*httpstore.Store, error) {
		return httpstore.Open(t.Context(), httpstore.Config{Servers: []string{s.url()}, Token: func() (string, error) { return token, nil }})
	}
	if _, err := as("nobody"); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "right") {
		t.Errorf("Open with a wrong token: %v", err)
	}
	worker, err := as("worker")
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	if lacks := worker.Guarantees().Lacks; lacks != driver.AbilityInspect|driver.AbilityList|driver.AbilityBreak {
		t.Errorf("the worker lacks %b", lacks)
	}
	if _, err := worker.Inspect(t.Context(), "name"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Inspect without the right: %v", err)
	}
	tenant, err := as("tenant")
	if err != nil {
		t.Fatal(err)
	}
	defer tenant.Close()
	mine, err1 := worker.StoreID(t.Context())
	other, err2 := tenant.StoreID(t.Context())
	if mine == other || err1 != nil || err2 != nil {
		t.Errorf("the worker has the store %q, the tenant %q; %v, %v", mine, other, err1, err2)
	}
	if driver.SamePlace(worker, tenant) != true {
		t.Error("one server is two places")
	}
}

// Others see the client's process in the label, and the time that is left is what was asked for.
func TestHolderAndLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := padlockapi.Handler(memstore.New(memstore.MaxTTL(driver.DefaultMaxTTL)), padlockapi.Authorize(all))
		defer api.Close()
		s := overhttptest.Start(api)
		defer s.Stop()
		store, err := httpstore.Open(t.Context(), httpstore.Config{Servers: []string{"http://127.0.0.1"}, Transport: s.Front().Transport()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		most := store.Guarantees().MaxTTL
		for _, ttl := range []time.Duration{100 * time.Millisecond, 333 * time.Millisecond, time.Second, 7 * time.Second, most} {
			r := request(ttl.String(), one)
			r.TTL = ttl
			if g, err := store.Acquire(t.Context(), r); err != nil || g.TTL < ttl-10*time.Millisecond || g.TTL > ttl*7/5 {
				t.Errorf("a lease of %v: %+v, %v", ttl, g, err)
			}
		}
		var held *driver.HeldError
		_, err = store.Acquire(t.Context(), request(most.String(), two))
		if !errors.As(err, &held) || len(held.Holds) != 1 || !strings.HasPrefix(held.Holds[0].Label, "report web-3/4121 (ann, ") {
			t.Fatalf("the refusal is %+v", err)
		}
		if ends := time.Now().Add(most); held.Until.Before(ends.Add(-2*time.Second)) || held.Until.After(ends.Add(2*time.Second)) {
			t.Errorf("the hold ends at %v, not at %v", held.Until, ends)
		}
	})
}
