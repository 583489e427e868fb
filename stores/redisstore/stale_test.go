package redisstore_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// pair is a primary with a replica behind one address that stays the same, as behind a Service of
// Kubernetes or HAProxy. After swap, new connections lead to the new primary. Connections from
// before stay open and lead to the demoted server.
type pair struct {
	primary, replica *server.Server
	front            *server.Proxy
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{primary: server.Redis(t, server.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})}
	p.replica = server.Redis(t, server.RedisOptions{Args: []string{"--replicaof", "127.0.0.1", portOf(p.primary)}})
	becomes(t, p.replica, "slave")
	p.front = server.NewProxy(t, p.primary.Addr())
	return p
}

// swap waits until the replica has a lock on each of the names, and promotes it.
func (p *pair) swap(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		eventually(t, "the replica has the lock "+n, func() bool { return ask(t, p.replica, "EXISTS", n) == "1" })
	}
	ask(t, p.replica, "REPLICAOF", "NO", "ONE")
	ask(t, p.primary, "REPLICAOF", "127.0.0.1", portOf(p.replica))
	p.primary, p.replica = p.replica, p.primary
	p.front.Lead(p.primary.Addr())
}

// TestSwapBehindOneAddress: after a refusal by the demoted server, the next call reaches the new
// primary.
func TestSwapBehindOneAddress(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	s := opened(t, p.front.Addr(), redisstore.MaxTTL(time.Hour))
	held := request("held")
	take(t, s, held)
	calls := map[string]func() error{
		"Acquire": func() error { _, err := s.Acquire(t.Context(), request("new")); return err },
		"Extend":  func() error { _, err := s.Extend(t.Context(), held.Name, held.Token.Text(), held.TTL); return err },
		"Record": func() error {
			return s.Record(t.Context(), "runs", []fast.Record{{ID: "r1", Text: "x"}})
		},
	}
	for what, call := range calls {
		p.swap(t, held.Name)
		becomes(t, p.replica, "slave")
		wantIs(t, call(), driver.ErrUnavailable, what+" at the demoted server")
		if _, err := s.Extend(t.Context(), held.Name, held.Token.Text(), held.TTL); err != nil {
			t.Errorf("the call after a refused %s: %v", what, err)
		}
	}
	free(t, s, held)
}

// TestHolderRenewsAtTheNewPrimary: the replica had the lock, so the holder keeps it.
func TestHolderRenewsAtTheNewPrimary(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	l := padlock.New(opened(t, p.front.Addr()), padlock.TTL(4*time.Second))
	held, err := l.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	p.swap(t, "held")
	swapped := time.Now()
	eventually(t, "a renewal after the swap, or the loss", func() bool {
		return held.Context().Err() != nil || time.Now().Add(held.Remaining()).After(swapped.Add(4*time.Second))
	})
	if err := held.Release(); err != nil {
		t.Error(err)
	}
}

// TestWaiterMovesToTheNewPrimary: a waiter's connection for requests or its subscription, or both,
// lead to the demoted server. The new primary hands the lock over to the waiter.
func TestWaiterMovesToTheNewPrimary(t *testing.T) {
	t.Parallel()
	for stays, kill := range map[string]string{"both": "", "subscription": "normal", "requests": "pubsub"} {
		t.Run(stays, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			holder, waiter := opened(t, p.front.Addr()), opened(t, p.front.Addr())
			held := request("held")
			take(t, holder, held)
			w := waits(t, waiter, held.Name)
			p.swap(t, held.Name)
			becomes(t, p.replica, "slave")
			if kill == "" {
				// The demoted server refuses this call, unless it has refused the waiter's own look
				// before. Then the call fails with its connection or reaches the new primary.
				if _, err := waiter.Extend(t.Context(), "other", newToken(), held.TTL); err == nil {
					t.Error("a token that holds nothing was extended")
				}
			} else {
				ask(t, p.replica, "CLIENT", "KILL", "TYPE", kill)
			}
			eventually(t, "the new primary has the subscription", func() bool {
				c := rawClient(t, single(p.primary.Addr()))
				names, err := c.Do(t.Context(), c.B().PubsubChannels().Build()).AsStrSlice()
				return err == nil && len(names) == 1
			})
			eventually(t, "the release", func() bool { // the first try may reach the demoted server
				_, err := holder.Release(t.Context(), held.Name, held.Token.Text(), 0)
				return err == nil
			})
			w.got()
		})
	}
}

// TestStaleReplica: the demoted server has no primary and refuses reads, too (MASTERDOWN).
func TestStaleReplica(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	s := opened(t, p.front.Addr())
	held := request("held")
	take(t, s, held)
	p.swap(t, held.Name)
	ask(t, p.replica, "CONFIG", "SET", "replica-serve-stale-data", "no")
	ask(t, p.replica, "REPLICAOF", "127.0.0.1", "1")
	_, err := s.Inspect(t.Context(), held.Name)
	wantIs(t, err, driver.ErrUnavailable, "a read at the demoted server")
	if st, err := s.Inspect(t.Context(), held.Name); err != nil || len(st.Holds) != 1 {
		t.Errorf("the next read: %+v, %v", st, err)
	}
}

// TestReplicaIsDialledForCallsOnly: the address goes on leading to a replica, which refuses every
// call. Each call makes one connection at most.
func TestReplicaIsDialledForCallsOnly(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	s := opened(t, p.front.Addr())
	held := request("held")
	take(t, s, held)
	demoted := p.primary
	p.swap(t, held.Name)
	becomes(t, demoted, "slave")
	p.front.Lead(demoted.Addr())
	c := rawClient(t, single(demoted.Addr()))
	received := func() int64 {
		info, err := c.Do(t.Context(), c.B().Info().Section("stats").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(regexp.MustCompile(`total_connections_received:(\d+)`).FindStringSubmatch(info)[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := received()
	const calls = 20
	for range calls {
		_, err := s.Extend(t.Context(), held.Name, held.Token.Text(), held.TTL)
		wantIs(t, err, driver.ErrUnavailable, "Extend at a replica")
		_, err = s.Acquire(t.Context(), request("new"))
		wantIs(t, err, driver.ErrUnavailable, "Acquire at a replica")
	}
	if n := received() - before; n > 2*calls {
		t.Errorf("%d calls made %d connections", 2*calls, n)
	} else {
		t.Logf("%d calls made %d connections", 2*calls, n)
	}
}
