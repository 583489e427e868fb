package natsstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// A connection that is lost before a Put arrives, or after it, is repaired: the caller gets what it
// has asked for, and each call has written once.
func TestLostPut(t *testing.T) {
	t.Parallel()
	srv, rawURL := start(t, server.NATSOptions{})
	c := count(t, srv)
	for _, effect := range []bool{true, false} {
		for try := 1; ; try++ {
			begun := time.Now()
			err := lostPut(t, c, srv, rawURL, fmt.Sprintf("job-%v-%d", effect, try), effect)
			if err == nil {
				break
			}
			// A server that is silent for 2 s gets another request.
			if slow := time.Since(begun) > 2*time.Second; !slow || try == 5 {
				t.Fatalf("effect=%v: %v", effect, err)
			}
		}
	}
}

// lostPut takes, extends and releases a name, and takes it once more, while connections are lost.
func lostPut(t *testing.T, c *counter, srv *server.Server, rawURL, name string, effect bool) error {
	t.Helper()
	c.take()
	p := server.NewProxy(t, srv.Addr())
	store := open(t, strings.Replace(rawURL, srv.Addr(), p.Addr(), 1))
	disturb := func() {
		if effect {
			p.LoseReply(aPut)
			return
		}
		var hit atomic.Bool
		p.Refuse(func(request []byte) bool { return aPut(request) && !hit.Swap(true) })
	}
	r := request(name)
	disturb()
	g, err := store.Acquire(t.Context(), r)
	if err != nil {
		return fmt.Errorf("Acquire: %w", err)
	}
	disturb()
	e, err := store.Extend(t.Context(), r.Name, r.Token, time.Minute)
	if err != nil {
		return fmt.Errorf("Extend: %w", err)
	}
	if e.Fence != g.Fence {
		t.Errorf("effect=%v: Extend: %+v; the fence was %d", effect, e, g.Fence)
	}
	disturb()
	if out, err := store.Release(t.Context(), r.Name, r.Token, 0); out != driver.OutcomeReleased || err != nil {
		return fmt.Errorf("Release: %v, %w", out, err)
	}
	if n := take(t, store, request(r.Name)); n.Fence <= g.Fence {
		t.Errorf("SAFETY: effect=%v: the next fence is %d, after %d", effect, n.Fence, g.Fence)
	}
	if _, writes, _ := c.take(); writes != 4 {
		return fmt.Errorf("four calls have written %d times", writes)
	}
	return nil
}

// A hold outlives kill -9 of its server. A server that has lost its data grants nothing before
// somebody makes the bucket anew. The error says to do that when no holder can work on any more.
func TestRestart(t *testing.T) {
	t.Parallel()
	srv, rawURL := start(t, server.NATSOptions{})
	store := open(t, rawURL)
	r := request("job")
	r.TTL = time.Hour // longer than any restart
	g := take(t, store, r)
	extend := func() (e driver.Grant, err error) {
		err = answered(t, func() (err error) { e, err = store.Extend(t.Context(), r.Name, r.Token, r.TTL); return err })
		return e, err
	}
	srv.Crash(true)
	if e, err := extend(); err != nil || e.Fence != g.Fence {
		t.Errorf("after kill -9: %+v, %v", e, err)
	}
	srv.Crash(false)
	const advice = "there is no bucket locks: if it was lost, wait for the longest lease; then make it with padlock schema --upgrade"
	refuses(t, advice, func() error { _, err := store.Acquire(t.Context(), request("other")); return err })
	refusesToOpen(t, advice, rawURL)
	makeBucket(t, rawURL)
	if _, err := extend(); !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrExpired) {
		t.Errorf("the holder, after the bucket was made anew: %v", err)
	}
	if n := take(t, store, request("job")); n.Fence <= g.Fence {
		t.Errorf("SAFETY: the fence is %d, after %d", n.Fence, g.Fence)
	}
}

// A waiter whose connection is lost is woken by the next release, long before the lease would end.
func TestWaiterWithoutConnection(t *testing.T) {
	t.Parallel()
	srv, rawURL := start(t, server.NATSOptions{})
	p := server.NewProxy(t, srv.Addr())
	holder, other := open(t, rawURL), open(t, strings.Replace(rawURL, srv.Addr(), p.Addr(), 1))
	for _, cut := range []func(){func() {}, p.Cut, func() { srv.Crash(true) }} {
		r := request("job")
		r.TTL = time.Hour
		take(t, holder, r)
		woken := wait(t, other, "job")
		awaitConsumers(t, srv, 1)
		cut()
		awaitConsumers(t, srv, 1)
		if _, err := holder.Release(t.Context(), r.Name, r.Token, 0); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-woken:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the release did not wake the waiter")
		}
	}
}

// awaitConsumers waits until the bucket has at least n waiters that a client listens to.
func awaitConsumers(t *testing.T, srv *server.Server, n int) {
	t.Helper()
	_, js := connect(t, srv.URL())
	server.Eventually(t, func() error {
		stream, err := js.Stream(t.Context(), "KV_locks")
		if err != nil {
			return err
		}
		bound := 0
		for c := range stream.ListConsumers(t.Context()).Info() {
			if c.PushBound {
				bound++
			}
		}
		if bound < n {
			return fmt.Errorf("%d waiters", bound)
		}
		return nil
	})
}

// A hold in a bucket with three replicas outlives the death of the server that leads them, and so
// does its fence.
func TestFailover(t *testing.T) {
	t.Parallel()
	members, rawURL := startCluster(t)
	store := open(t, rawURL)
	r := request("job")
	r.TTL = time.Hour // longer than any election
	g := take(t, store, r)
	nc, js := connect(t, rawURL[:strings.LastIndex(rawURL, "/")])
	stream, err := js.Stream(t.Context(), "KV_locks")
	if err != nil {
		t.Fatal(err)
	}
	leader := stream.CachedInfo().Cluster.Leader
	nc.Close()
	members[leader[1]-'0'].Kill()
	server.Eventually(t, func() error {
		e, err := store.Extend(t.Context(), r.Name, r.Token, r.TTL)
		if err == nil && e.Fence != g.Fence {
			t.Errorf("SAFETY: the fence was %d, and is %d", g.Fence, e.Fence)
		}
		return err
	})
	err = answered(t, func() error { _, err := store.Acquire(t.Context(), request("job")); return err })
	if !errors.Is(err, driver.ErrHeld) {
		t.Errorf("another process after the failover: %v", err)
	}
}

// A value that somebody has deleted with NATS's tools frees the name.
func TestDeletedValue(t *testing.T) {
	t.Parallel()
	srv, rawURL := start(t, server.NATSOptions{})
	store := open(t, rawURL)
	_, js := connect(t, srv.URL())
	kv, err := js.KeyValue(t.Context(), "locks")
	if err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func(string) error{
		"deleted": func(key string) error { return kv.Delete(t.Context(), key) },
		"purged":  func(key string) error { return kv.Purge(t.Context(), key) },
	} {
		r := request(name)
		take(t, store, r)
		if err := remove("shop/" + name); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Extend(t.Context(), r.Name, r.Token, r.TTL); !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrExpired) {
			t.Errorf("%s: the holder: %v", name, err)
		}
		take(t, store, request(name))
		if _, err := store.Acquire(t.Context(), request(name)); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("SAFETY: %s: two holders: %v", name, err)
		}
	}
}

// A bucket that is full refuses for certain, and at once. It also refuses to extend a lease, as
// doctor and the page say, but holders can release, and that makes room.
func TestFullBucket(t *testing.T) {
	t.Parallel()
	srv := server.NATS(t, server.NATSOptions{})
	_, js := connect(t, srv.URL())
	if _, err := js.CreateKeyValue(t.Context(), bucketOf("locks", 4<<10)); err != nil {
		t.Fatal(err)
	}
	store := open(t, srv.URL()+"/locks")
	var held []driver.Request
	for {
		r := request(fmt.Sprint("job-", len(held)))
		_, err := store.Acquire(t.Context(), r)
		if err == nil && len(held) < 100 {
			held = append(held, r)
			continue
		}
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || !strings.Contains(err.Error(), "maximum bytes") {
			t.Errorf("after %d locks: %v", len(held), err)
		}
		break
	}
	if len(held) == 0 {
		t.Fatal("no lock has room")
	}
	for _, r := range held {
		if _, err := store.Extend(t.Context(), r.Name, r.Token, r.TTL); err != nil && (!errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain)) {
			t.Errorf("Extend: %v", err)
		}
		if out, err := store.Release(t.Context(), r.Name, r.Token, 0); err != nil || out != driver.OutcomeReleased {
			t.Errorf("Release: %v, %v", out, err)
		}
	}
	take(t, store, request("after"))
}

// A Put that the servers get once more, after its lock was released, changes nothing.
func TestRepeatedPut(t *testing.T) {
	t.Parallel()
	srv, rawURL := start(t, server.NATSOptions{})
	store := open(t, rawURL)
	nc, _ := connect(t, srv.URL())
	puts, err := nc.SubscribeSync("$KV.locks.>")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := request("job")
	take(t, store, r)
	if _, err := store.Release(t.Context(), r.Name, r.Token, 0); err != nil {
		t.Fatal(err)
	}
	put, err := puts.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.RequestMsg(&nats.Msg{Subject: put.Subject, Header: put.Header, Data: put.Data}, time.Minute); err != nil {
		t.Fatal(err)
	}
	take(t, store, request("job"))
}
