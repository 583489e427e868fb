package etcdstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// everyKey returns the keys of a name that were ever written.
func everyKey(t *testing.T, c *clientv3.Client, name string) []string {
	t.Helper()
	reply, err := c.Put(t.Context(), "padlock/l/"+name+"/zzz", "the last key")
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]bool)
	for events := range c.Watch(t.Context(), "padlock/l/"+name+"/", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		for _, e := range events.Events {
			if e.Kv.ModRevision == reply.Header.Revision {
				return slices.Sorted(maps.Keys(keys))
			}
			keys[string(e.Kv.Key)] = true
		}
	}
	t.Fatal("the watch ended")
	return nil
}

// TestKeysAreUsedAgain: the server keeps every key that was deleted until its history is compacted,
// so many locks, shared locks, promotions and hand-overs of a name use few keys.
func TestKeysAreUsedAgain(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	c := newClient(t, srv.Addr())
	one, two := mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()})
	release := func(s *etcdstore.Store, token string) {
		t.Helper()
		if o, err := s.Release(t.Context(), "job", token, 0); err != nil || o != driver.OutcomeReleased {
			t.Fatalf("Release: %v, %v", o, err)
		}
	}
	for i := range 10 {
		name := func(text string) string { return fmt.Sprint(text, i) }
		take(t, one, request("job", name("alone")))
		release(one, name("alone"))
		reader := request("job", name("reader"))
		reader.Shared = true
		take(t, one, reader)
		reader.Shared = false
		if _, err := one.Convert(t.Context(), reader); err != nil {
			t.Fatal(err)
		}
		release(one, name("reader"))
		take(t, one, request("job", name("first")))
		waiters := queueUp(t, "job", two, one)
		release(one, name("first"))
		for range 2 {
			w := <-waiters
			if w.err != nil || w.g.TTL == 0 {
				t.Fatalf("%+v, %v", w.g, w.err)
			}
			release(w.s, w.r.Token.Text())
		}
	}
	// One key of the exclusive hold, one of a reader, and two of the waiters.
	if keys := everyKey(t, c, "job"); len(keys) > 4 {
		t.Errorf("%d keys: %q", len(keys), keys)
	}
}

// TestLostHoldInAGroup: a store that has lost a hold and was granted the name again moves the new
// hold to another lease. Both holds have the same key, and the store has not noticed the loss yet.
func TestLostHoldInAGroup(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	clock := &laterClock{Clock: driver.SystemClock()}
	s, other := mustOpen(t, []string{srv.Addr()}, etcdstore.WithClock(clock)), mustOpen(t, []string{srv.Addr()})
	const ttl = 300 * time.Second
	extend := func(name, token string) error {
		g, err := s.Extend(t.Context(), name, token, ttl)
		if err == nil && g.TTL < ttl*9/10 {
			err = fmt.Errorf("%+v", g)
		}
		return err
	}
	hold := func(name, token string) driver.Grant {
		t.Helper()
		r := request(name, token)
		r.TTL = ttl
		g := take(t, s, r)
		clock.plus.Add(int64(ttl / 24)) // the first lease is up to 10 s longer
		if err := extend(name, token); err != nil {
			t.Fatal(err)
		}
		return g
	}
	hold("late", "late")
	lost := hold("job", "lost")
	if _, err := other.Break(t.Context(), "job", lost.Fence); err != nil {
		t.Fatal(err)
	}
	hold("job", "live")
	clock.plus.Add(int64(ttl / 3)) // only the hold "late" was not extended in time
	if err := extend("job", "live"); err != nil {
		t.Errorf("Extend of the live hold: %v", err)
	}
	if err := extend("job", "lost"); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend of the lost hold: %v, want ErrLost", err)
	}
	if err := extend("job", "live"); err != nil {
		t.Errorf("Extend of the live hold after that of the lost one: %v", err)
	}
}

// TestHolders: each hold names its own holder, even if one store has several holders in turn.
func TestHolders(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	s := mustOpen(t, []string{srv.Addr()})
	for _, holder := range []driver.Holder{{}, {Host: `a "b" é\`, PID: 1, Label: "<c>"}, {Host: "d", Plan: time.Minute}, {Host: "d"}} {
		r := request("job", "token")
		r.Holder = holder
		take(t, s, r)
		st, err := s.Inspect(t.Context(), "job")
		if err != nil || len(st.Holds) != 1 || st.Holds[0].Holder != holder {
			t.Errorf("%+v, %v; want the holder %+v", st.Holds, err, holder)
		}
		if _, err := s.Release(t.Context(), "job", "token", 0); err != nil {
			t.Fatal(err)
		}
	}
}
