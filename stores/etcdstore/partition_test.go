package etcdstore_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// takeSoon takes a name from a cluster, which may be electing a leader.
func takeSoon(t testing.TB, s driver.Store, r driver.Request) (g driver.Grant) {
	t.Helper()
	server.Eventually(t, func() (err error) {
		g, err = s.Acquire(t.Context(), r)
		return err
	})
	return g
}

// holding takes a name, and extends the hold in the background until ctx ends. It returns after a
// few of these calls. After the end of ctx, the channel gets the earliest time at which the lease
// may end, according to the replies that arrived.
func holding(ctx context.Context, t *testing.T, s driver.Store, r driver.Request) chan driver.Instant {
	t.Helper()
	clock := driver.SystemClock()
	sent := clock.Now()
	end := sent.Add(takeSoon(t, s, r).TTL)
	ended, extended := make(chan driver.Instant, 1), make(chan bool)
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			if i == 4 {
				close(extended)
			}
			sent := clock.Now()
			each, cancel := context.WithTimeout(ctx, r.TTL/4)
			g, err := s.Extend(each, r.Name, r.Token.Text(), r.TTL)
			cancel()
			if g.From != 0 {
				sent = g.From
			}
			if err == nil {
				end = max(end, sent.Add(g.TTL))
			}
			select {
			case <-time.After(r.TTL / 8):
			case <-ctx.Done():
			}
		}
		ended <- end
	}()
	<-extended
	return ended
}

// waitSoon waits for a name until it is granted, and returns the token. On a busy machine a waiter
// can lose its place in the queue, and then needs a new token.
func waitSoon(t *testing.T, s driver.Store, name string) (token string) {
	t.Helper()
	server.Eventually(t, func() error {
		token = "next " + strconv.Itoa(int(driver.SystemClock().Now()))
		g, err := s.(driver.Waiter).Wait(t.Context(), request(name, token), true)
		if err == nil && g.TTL == 0 {
			err = errors.New("Wait returned without the name")
		}
		return err
	})
	return token
}

// outOfReach checks that a hold whose holder cannot reach the majority of the servers is over
// before another store is granted the name. disconnect disconnects the holder.
func outOfReach(t *testing.T, holder, other driver.Store, disconnect func()) {
	t.Helper()
	r := request("job", "one")
	r.TTL = 2 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := holding(ctx, t, holder, r)
	disconnect()
	waitSoon(t, other, "job")
	granted := driver.SystemClock().Now()
	cancel()
	if end := <-ended; end > granted {
		safety.TooEarly(t, "the name was granted again %v before the lease of its holder had ended", end.Sub(granted))
	}
}

// TestCutOffMember: the leader is cut off from the other members, and a holder is connected only to
// that leader. The lease of the holder ends before the majority grants the name again.
func TestCutOffMember(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	var mu sync.Mutex
	links := map[int]*server.Proxy{}
	members := server.EtcdCluster(t, 3, func(member int, addr string) string {
		mu.Lock()
		defer mu.Unlock()
		links[member] = server.NewProxy(t, addr)
		return links[member].Addr()
	})
	leader := leaderOf(t, members)
	st, err := newClient(t, leader.Addr()).Status(t.Context(), leader.Addr())
	if err != nil {
		t.Fatal(err)
	}
	sender := []byte("X-Server-From: " + strconv.FormatUint(st.Header.MemberId, 16))
	var majority []string
	for _, m := range members {
		if m != leader {
			majority = append(majority, m.Addr())
		}
	}
	outOfReach(t, mustOpen(t, []string{leader.Addr()}), mustOpen(t, majority), func() {
		for i, p := range links {
			p.Refuse(func(request []byte) bool { return members[i] == leader || bytes.Contains(request, sender) })
		}
	})
}

// TestSilentNetwork is T-E3: the network of a holder falls silent, and its lease ends for it before
// the server grants the name again. The log says how late etcd's own session reports its end.
func TestSilentNetwork(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	p := server.NewProxy(t, srv.Addr())
	session, err := concurrency.NewSession(newClient(t, p.Addr()), concurrency.WithTTL(5)) // a shorter lease may end on a busy machine
	if err != nil {
		t.Fatal(err)
	}
	if err := concurrency.NewMutex(session, "mutex").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := concurrency.NewSession(newClient(t, srv.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	taken, done := make(chan time.Time, 1), make(chan time.Time, 1)
	go func() {
		if concurrency.NewMutex(next, "mutex").Lock(t.Context()) == nil {
			taken <- time.Now()
		}
	}()
	go func() {
		<-session.Done()
		done <- time.Now()
	}()
	outOfReach(t, mustOpen(t, []string{p.Addr()}), mustOpen(t, []string{srv.Addr()}), func() { p.Silence(true) })
	t.Logf("etcd's own session says that it has ended %v after another one got its mutex", (<-done).Sub(<-taken))
}

// TestStoppedWaiter: a Release passes the name on to a waiter whose process was stopped. The waiter
// behind it gets the name soon, and the stopped process does not believe that it has the name.
func TestStoppedWaiter(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	s, other := mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()})
	take(t, other, request("job", "first"))
	front := queueUp(t, "job", s)
	cmd, lines := startChild(t, childAt+"="+srv.Addr(), childWaits+"=yes")
	inQueue(t, s, "job", 2)
	behind := make(chan result, 1)
	go func() {
		r := request("job", "behind")
		g, err := other.Wait(t.Context(), r, true)
		behind <- result{other, r, g, err}
	}()
	inQueue(t, s, "job", 3)
	if _, err := other.Release(t.Context(), "job", "first", 0); err != nil {
		t.Fatal(err)
	}
	w := <-front
	server.StopProcess(t, cmd.Process.Pid)
	if o, err := s.Release(t.Context(), "job", w.r.Token.Text(), 0); err != nil || o != driver.OutcomeReleased {
		t.Fatalf("Release: %v, %v", o, err)
	}
	if b := <-behind; b.err != nil || !safety.Rises(t, b.g.Fence, w.g.Fence) {
		t.Fatalf("behind a waiter that was stopped: %+v, %v", b.g, b.err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "waited false <nil>" {
		t.Errorf("the waiter that was stopped says %q", lines.Text())
	}
	if _, err := other.Extend(t.Context(), "job", "behind", 0); err != nil {
		t.Errorf("the next hold after the stopped process continued: %v", err)
	}
}
