package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// permitWaiter is a call of AwaitSlot.
type permitWaiter struct {
	r      driver.Request
	cancel context.CancelFunc
	done   chan awaited
}

type awaited struct {
	slot int
	g    driver.Grant
	err  error
}

// awaitsPermit calls AwaitSlot, and waits until the caller has a place: it has the gate, or it is
// in the queue of the gate.
func awaitsPermit(t *testing.T, srv *server.Server, s *redisstore.Store, name string, n int) *permitWaiter {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &permitWaiter{request(name), cancel, make(chan awaited, 1)}
	go func() {
		slot, g, err := s.AwaitSlot(ctx, w.r, n)
		w.done <- awaited{slot, g, err}
	}()
	eventually(t, "the waiter has a place", func() bool {
		gate := driver.SlotGate(name, n)
		return strings.Contains(ask(t, srv, "HGET", keyOf(t, srv, "h:", gate), "s"), w.r.Token) ||
			ask(t, srv, "ZSCORE", keyOf(t, srv, "q:", gate), w.r.Token) != ""
	})
	return w
}

// keyOf returns the key of a name whose kind is the given letter, or "none".
func keyOf(t *testing.T, srv *server.Server, kind, name string) string {
	t.Helper()
	for _, key := range allKeys(t, srv) {
		if strings.HasSuffix(key, "}"+kind+name) {
			return key
		}
	}
	return "none"
}

func allKeys(t *testing.T, srv *server.Server) []string {
	t.Helper()
	c := rawClient(t, single(srv.Addr()))
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Waiters that give up, at the gate and behind it, leave only notes at the server, and each note
// expires. Close waits until they have given up.
func TestAwaitSlotLeavesNothing(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, other := opened(t, srv.Addr()), opened(t, srv.Addr())
	r := request("job")
	if _, _, err := s.AcquireSlot(t.Context(), r, 1, false); err != nil {
		t.Fatal(err)
	}
	var waiters []*permitWaiter
	for range 3 {
		waiters = append(waiters, awaitsPermit(t, srv, other, "job", 1))
	}
	for _, w := range waiters {
		w.cancel()
		if a := <-w.done; !errors.Is(a.err, context.Canceled) {
			t.Errorf("a waiter that was cancelled: %v", a.err)
		}
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	r.Name = driver.SlotName("job", 0)
	free(t, s, r)
	for _, key := range allKeys(t, srv) {
		if !strings.Contains(key, "}f:") || ask(t, srv, "PTTL", key) == "-1" {
			t.Errorf("the key %s is left", key)
		}
	}
}

// The release of a permit passes the gate to the next waiter at once. It does not wait for the end
// of the lease that the first waiter had at the gate.
func TestGateIsPassedOn(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, other := opened(t, srv.Addr()), opened(t, srv.Addr())
	for i := range 100 {
		name := fmt.Sprint("job", i)
		r := request(name)
		if _, _, err := s.AcquireSlot(t.Context(), r, 1, false); err != nil {
			t.Fatal(err)
		}
		first, second := awaitsPermit(t, srv, other, name, 1), awaitsPermit(t, srv, other, name, 1)
		r.Name = driver.SlotName(name, 0)
		free(t, s, r)
		a := <-first.done
		if a.err != nil {
			t.Fatal(a.err)
		}
		claim := first.r
		claim.Name, claim.Replaces = r.Name, claim.Token
		_, err := other.Acquire(t.Context(), claim)
		if err != nil { // the machine stood still, and the reservation has ended
			second.cancel()
			<-second.done
			continue
		}
		if at := ask(t, srv, "HGET", keyOf(t, srv, "h:", driver.SlotGate(name, 1)), "s"); !strings.Contains(at, second.r.Token) {
			t.Errorf("the next waiter has the token %s, and the gate has the waiter %q", second.r.Token, at)
		}
		return
	}
	t.Error("no reservation was claimed")
}

// A waiter at the gate whose lease has ended gets no permit. Its process may stand still, so that
// its channel still has a subscriber.
func TestNoPermitAfterTheGate(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, other := opened(t, srv.Addr()), opened(t, srv.Addr())
	r := request("job")
	if _, _, err := s.AcquireSlot(t.Context(), r, 1, false); err != nil {
		t.Fatal(err)
	}
	w := awaitsPermit(t, srv, other, "job", 1)
	hash := keyOf(t, srv, "h:", driver.SlotGate("job", 1))
	at := ask(t, srv, "HGET", hash, "s")
	w.cancel()
	<-w.done
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	parts := strings.Fields(at[3+len(w.r.Token):])
	c := rawClient(t, single(srv.Addr()))
	listening := make(chan struct{})
	go c.Receive(rueidis.WithOnSubscriptionHook(t.Context(), func(rueidis.PubSubSubscription) { close(listening) }),
		c.B().Subscribe().Channel("padlock:"+parts[0]).Build(), func(rueidis.PubSubMessage) {})
	<-listening
	ask(t, srv, "HSET", hash, "s", at)
	ask(t, srv, "PEXPIRE", hash, "60000")
	r.Name = driver.SlotName("job", 0)
	ask(t, srv, "SETRANGE", keyOf(t, srv, "f:", r.Name), "0", "!") // as if there were waiters
	free(t, s, r)
	if key := keyOf(t, srv, "n:", r.Name); key != "none" {
		t.Errorf("the permit is reserved for a waiter whose turn is over: %s", key)
	}
}
