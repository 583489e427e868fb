package etcdstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

func request(name, token string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: 30 * time.Second, Holder: driver.Holder{Host: "host.example", PID: 4711}}
}

func take(t testing.TB, s driver.Store, r driver.Request) driver.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newClient(t testing.TB, addresses ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: addresses, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func addresses(members []*server.Server) (all []string) {
	for _, m := range members {
		all = append(all, m.Addr())
	}
	return all
}

// TestLeaderKilled is T-E2: a hold and a waiter outlive the leader, and the fence rises.
func TestLeaderKilled(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	members := server.EtcdCluster(t, 3, nil)
	holder, other := mustOpen(t, addresses(members)), mustOpen(t, addresses(members))
	first := takeSoon(t, holder, request("job", "one"))
	handed := make(chan driver.Grant, 1)
	go func() {
		for {
			g, err := other.Wait(t.Context(), request("job", "two"), true)
			if err == nil && g.TTL == 0 { // a waiter can lose its place when the leader changes
				g, err = other.Acquire(t.Context(), request("job", fmt.Sprint("two ", time.Now())))
			}
			if err == nil && g.TTL > 0 {
				handed <- g
				return
			}
			if t.Context().Err() != nil {
				return
			}
		}
	}()
	leader := leaderOf(t, members)
	leader.Kill()
	server.Eventually(t, func() error {
		_, err := holder.Extend(t.Context(), "job", "one", 30*time.Second)
		if errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrExpired) {
			t.Fatalf("the hold did not outlive the leader: %v", err)
		}
		return err
	})
	server.Eventually(t, func() error {
		_, err := holder.Release(t.Context(), "job", "one", 0)
		return err
	})
	safety.Rises(t, (<-handed).Fence, first.Fence)
}

// leaderOf returns the leader. On a busy machine, the members may be electing another one.
func leaderOf(t *testing.T, members []*server.Server) (leader *server.Server) {
	t.Helper()
	server.Eventually(t, func() error {
		for _, m := range members {
			st, err := newClient(t, m.Addr()).Status(t.Context(), m.Addr())
			if err == nil && st.Leader == st.Header.MemberId {
				leader = m
				return nil
			}
		}
		return errors.New("there is no leader")
	})
	return leader
}

// TestWithoutALeader: without a majority of members nothing is granted, and the error says why.
func TestWithoutALeader(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	members := server.EtcdCluster(t, 3, nil)
	s := mustOpen(t, []string{members[0].Addr()})
	members[1].Pause()
	members[2].Pause()
	server.Eventually(t, func() error {
		_, err := s.Acquire(t.Context(), request("job", "one"))
		if err == nil {
			return nil
		}
		if errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) {
			t.Fatalf("a cluster without a leader says %v", err)
		}
		members[1].Resume()
		return err
	})
}

// TestLeaseRevoked: an administrator revokes the lease of a hold.
func TestLeaseRevoked(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	s, c := mustOpen(t, []string{srv.Addr()}), newClient(t, srv.Addr())
	for _, extended := range []bool{false, true} {
		take(t, s, request("job", "one"))
		if extended {
			if _, err := s.Extend(t.Context(), "job", "one", 300*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		revoke(t, c, "job")
		if _, err := s.Extend(t.Context(), "job", "one", 400*time.Second); !errors.Is(err, driver.ErrExpired) {
			t.Errorf("Extend after the lease was revoked: %v, want ErrExpired", err)
		}
		take(t, s, request("job", "two"))
		if o, err := s.Release(t.Context(), "job", "one", 0); err != nil || o != driver.OutcomeTaken {
			t.Errorf("Release after the lease was revoked and the name taken: %v, %v", o, err)
		}
		if _, err := s.Release(t.Context(), "job", "two", 0); err != nil {
			t.Fatal(err)
		}
	}
}

// revoke revokes the leases of all holds of a name.
func revoke(t *testing.T, c *clientv3.Client, name string) {
	t.Helper()
	reply, err := c.Get(t.Context(), "padlock/l/"+name+"/", clientv3.WithPrefix())
	if err != nil || len(reply.Kvs) == 0 {
		t.Fatalf("%d keys, %v", len(reply.Kvs), err)
	}
	for _, kv := range reply.Kvs {
		if _, err := c.Revoke(t.Context(), clientv3.LeaseID(kv.Lease)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIsHolder: a transaction of the caller's own is made while the lock is held, and not after.
func TestIsHolder(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	s, c := mustOpen(t, []string{srv.Addr()}), newClient(t, srv.Addr())
	write := func(lock etcdstore.Holding) bool {
		t.Helper()
		reply, err := c.Txn(t.Context()).If(s.IsHolder(lock)...).Then(clientv3.OpPut("report", "done")).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return reply.Succeeded
	}
	first := lock{"job", take(t, s, request("job", "one")).Fence}
	if !write(first) {
		t.Error("the holder cannot write")
	}
	if write(lock{"job", first.fence + 1}) || write(lock{"other", first.fence}) {
		t.Error("a stranger can write")
	}
	slot := permit{lock{"job", take(t, s, request(fast.SlotName("job", 1), "slot")).Fence}, 1}
	if !write(slot) {
		t.Error("the holder of a slot cannot write")
	}
	if write(permit{slot.lock, 0}) || write(slot.lock) {
		t.Error("a stranger can write with the fence of a slot")
	}
	held := s.IsHolder(first)
	if _, err := s.Extend(t.Context(), "job", "one", 300*time.Second); err != nil { // moves the key to another lease
		t.Fatal(err)
	}
	reply, err := c.Txn(t.Context()).If(held...).Then(clientv3.OpPut("report", "longer")).Commit()
	if err != nil || !reply.Succeeded {
		t.Errorf("the holder cannot write after an Extend: %v, %v", reply, err)
	}
	revoke(t, c, "job")
	second := lock{"job", take(t, s, request("job", "two")).Fence}
	reply, err = c.Txn(t.Context()).If(held...).Then(clientv3.OpPut("report", "late")).Commit()
	if err != nil || reply.Succeeded {
		t.Errorf("a late write of the former holder: %v, %v", reply.Succeeded, err)
	}
	if !write(second) {
		t.Error("the next holder cannot write")
	}
}

// TestIsHolderOfReaders: several readers of one process have the same fence. The transaction of a
// reader is made while that reader holds the lock, even if another reader has released its lock.
func TestIsHolderOfReaders(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	s, c := mustOpen(t, []string{srv.Addr()}), newClient(t, srv.Addr())
	write := func(cmps []clientv3.Cmp) bool {
		t.Helper()
		reply, err := c.Txn(t.Context()).If(cmps...).Then(clientv3.OpPut("report", "done")).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return reply.Succeeded
	}
	rounds := 5
	if server.IsThorough() {
		rounds = 20
	}
	for round := range rounds {
		name := fmt.Sprint("job ", round)
		var fence uint64
		for _, token := range []string{"one", "two", "three"} {
			r := request(name, token)
			r.Shared = true
			fence = take(t, s, r).Fence
		}
		held := s.IsHolder(lock{name, fence})
		for _, token := range []string{"one", "two"} {
			if _, err := s.Release(t.Context(), name, token, 0); err != nil {
				t.Fatal(err)
			}
			if !write(held) || !write(s.IsHolder(lock{name, fence})) {
				t.Fatalf("after the release of another reader, %q, a reader cannot write", token)
			}
		}
		if _, err := s.Release(t.Context(), name, "three", 0); err != nil {
			t.Fatal(err)
		}
		if write(held) {
			t.Fatal("after the release of all readers, one can write")
		}
		if g := take(t, s, request(name, "writer")); write(held) || !write(s.IsHolder(lock{name, g.Fence})) {
			t.Fatal("while there is a writer, a former reader can write, or the writer cannot")
		}
	}
}

type lock struct {
	name  string
	fence uint64
}

func (l lock) Name() string  { return l.name }
func (l lock) Fence() uint64 { return l.fence }

type permit struct {
	lock
	slot int
}

func (p permit) Slot() int { return p.slot }

// TestCompaction: compaction and defragmentation under load lose nothing, and waiters go on.
func TestCompaction(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	c := newClient(t, srv.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	done := make(chan error, 4)
	var last uint64
	for i := range cap(done) {
		s := mustOpen(t, []string{srv.Addr()})
		go func() { done <- rounds(ctx, s, i, &last) }()
	}
	for left := cap(done); left > 0; {
		select {
		case err := <-done:
			if left--; err != nil {
				t.Error(err)
			}
		default:
			reply, err := c.Get(t.Context(), "none")
			if err == nil {
				c.Compact(t.Context(), reply.Header.Revision)
				c.Defragment(t.Context(), srv.Addr())
				c.Get(t.Context(), "none") // a short pause without compaction
			}
		}
	}
}

// rounds takes a name several times. The lock guards *counter.
func rounds(ctx context.Context, s driver.Store, worker int, counter *uint64) error {
	acquire := func(r driver.Request) (g driver.Grant, err error) {
		for tries := 0; tries == 0 || unanswered(err) && ctx.Err() == nil; tries++ {
			g, err = s.Acquire(ctx, r)
		}
		return g, err
	}
	for i := range 5 {
		r := request("busy", fmt.Sprint("worker ", worker, " round ", i))
		g, err := acquire(r)
		for tries := 0; errors.Is(err, driver.ErrHeld) || unanswered(err) || err == nil && g.TTL == 0; tries++ {
			r.Token = driver.TokenOf(fmt.Sprint("worker ", worker, " round ", i, " try ", tries))
			if tries%2 == 0 {
				g, err = s.(driver.Waiter).Wait(ctx, r, true)
			} else {
				g, err = acquire(r)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err != nil {
			return err
		}
		if err := safety.FenceRises(g.Fence, *counter); err != nil {
			return err
		}
		*counter = g.Fence
		for tries := 0; tries == 0 || unanswered(err) && ctx.Err() == nil; tries++ {
			_, err = s.Release(ctx, r.Name, r.Token.Text(), 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestOldServer: the store works with the etcd of Debian, and its status warns of it.
func TestOldServer(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{Old: true})
	s := mustOpen(t, []string{srv.Addr()})
	take(t, s, request("job", "one"))
	if text := statusOf(t, s); !strings.Contains(text, "3.6.5") {
		t.Errorf("Status of an old server: %s", text)
	}
}

// TestTLS: the store speaks TLS. Without TLS, it reports that a server with TLS is unavailable.
func TestTLS(t *testing.T) {
	t.Parallel()
	certificate := server.NewTLS(t)
	srv := server.Etcd(t, server.EtcdOptions{TLS: certificate})
	s := openWith(t, etcdstore.Config{Endpoints: []string{srv.Addr()}, TLS: certificate.Client()})
	take(t, s, request("job", "one"))
	if _, err := open(t.Context(), srv.Addr()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("without TLS: %v", err)
	}
}

// TestServerName: the store checks that the certificate is for the name that was given, and not for
// the address. The certificate is for localhost and 127.0.0.1, and not for 0.0.0.0.
func TestServerName(t *testing.T) {
	t.Parallel()
	certificate := server.NewTLS(t)
	srv := server.Etcd(t, server.EtcdOptions{TLS: certificate})
	other := strings.Replace(srv.Addr(), "127.0.0.1", "0.0.0.0", 1)
	for _, k := range []struct {
		addr, name string
		right      bool
	}{
		{srv.Addr(), "", true},
		{srv.Addr(), "localhost", true},
		{srv.Addr(), "evil.example.org", false},
		{other, "", false},
		{other, "localhost", true},
	} {
		config := certificate.Client()
		config.ServerName = k.name
		server.Eventually(t, func() error { // a server may be too slow for a handshake
			s, err := etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: []string{k.addr}, TLS: config})
			if err == nil {
				take(t, s, request("job "+k.addr+k.name, "one"))
				s.Close()
			}
			if err == nil && !k.right {
				t.Fatalf("address %s, server name %q: no error", k.addr, k.name)
			}
			if (err == nil) != k.right || err != nil && !strings.Contains(err.Error(), "TLS failed") {
				return fmt.Errorf("address %s, server name %q: %w", k.addr, k.name, err)
			}
			return nil
		})
	}
}

// TestLogin: the store needs only the rights that its page lists.
func TestLogin(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	ctx := t.Context()
	const secret = "canary-71"
	enableLogins(t, srv, secret)
	s := openWith(t, etcdstore.Config{Endpoints: []string{srv.Addr()}, Credentials: etcdstore.Login("app", secret)})
	take(t, s, request("job", "one"))
	if _, err := s.Extend(ctx, "job", "one", time.Minute); err != nil {
		t.Error(err)
	}
	if _, err := s.Acquire(ctx, request("job", "two")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("Acquire of a held name: %v", err)
	}
	for _, wrong := range []etcdstore.Config{{Credentials: etcdstore.Login("app", secret+"x")}, {}} {
		wrong.Endpoints = []string{srv.Addr()}
		_, err := etcdstore.Open(ctx, wrong)
		if !errors.Is(err, driver.ErrUnavailable) || bytes.Contains([]byte(err.Error()), []byte(secret)) {
			t.Errorf("a wrong login: %v", err)
		}
	}
	elsewhere, err := etcdstore.Open(ctx, etcdstore.Config{Endpoints: []string{srv.Addr()}, Credentials: etcdstore.Login("app", secret)}, etcdstore.Prefix("other/"), etcdstore.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	if _, err := elsewhere.Acquire(ctx, request("job", "one")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("without the right to the prefix: %v", err)
	}
}
