package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// placesLast are the settings of a server in tests in which no waiter may lose its place. With the
// default, the lease of the places lasts for 2 s, and a busy machine may renew it too late.
var placesLast = server.EtcdOptions{MinLease: 6 * time.Second}

// A slowKV holds requests back. A request that drop returns true for is not sent: it goes to the
// channel held, and the caller gets an error when its context ends.
type slowKV struct {
	pb.KVClient
	held chan *pb.TxnRequest

	mu   sync.Mutex
	drop func(*pb.TxnRequest) bool // nil drops nothing
	done []*pb.TxnRequest          // the requests that were carried out
}

func (k *slowKV) Txn(ctx context.Context, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	k.mu.Lock()
	dropped := k.drop != nil && k.drop(r)
	if dropped {
		k.drop = nil
	}
	k.mu.Unlock()
	if dropped {
		k.held <- r
		<-ctx.Done()
		return nil, ctx.Err()
	}
	reply, err := k.KVClient.Txn(ctx, r, opts...)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done = append(k.done, r)
	return reply, err
}

// dropNext drops the next request for which the function returns true.
func (k *slowKV) dropNext(drop func(*pb.TxnRequest) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop = drop
}

// doneSince returns how many requests were carried out, and whether one of them after the first n
// was about the name.
func (k *slowKV) doneSince(n int, name string) (int, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.done), slices.ContainsFunc(k.done[n:], func(r *pb.TxnRequest) bool { return mentions(r, name) })
}

// slowed opens a store whose requests go through a slowKV.
func slowed(t *testing.T, addr string) (*Store, *slowKV) {
	t.Helper()
	s := opened(t, addr)
	client, err := s.conn.getClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := &slowKV{KVClient: client.kv, held: make(chan *pb.TxnRequest, 1)}
	client.kv = k
	return s, k
}

func opened(t *testing.T, addr string) *Store {
	t.Helper()
	return openedWith(t, Config{Endpoints: []string{addr}})
}

func openedWith(t *testing.T, c Config, opts ...Option) *Store {
	t.Helper()
	s, err := Open(t.Context(), c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func requestFor(name, token string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute}
}

// writes reports whether a transaction writes a key that contains the text.
func writes(r *pb.TxnRequest, text string) bool {
	for _, op := range r.Success {
		if p := op.GetRequestPut(); p != nil && bytes.Contains(p.Key, []byte(text)) {
			return true
		}
	}
	return false
}

// mentions reports whether a transaction reads or writes the keys of a name.
func mentions(r *pb.TxnRequest, name string) bool {
	return bytes.Contains([]byte(r.String()), []byte("/"+name+"/"))
}

// waitAllTheTime lets the store wait for a name until the end of the test.
func waitAllTheTime(t *testing.T, holder, s *Store) {
	t.Helper()
	if _, err := holder.Acquire(t.Context(), requestFor("long", "holder")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			s.Wait(ctx, requestFor("long", "waiter"), true)
		}
	}()
}

// checkFree checks that another store gets a free name.
func checkFree(t *testing.T, other *Store, name string) {
	t.Helper()
	server.Eventually(t, func() error { return hasWaiters(t, other, name, 0) })
	st, err := other.Inspect(t.Context(), name)
	if err != nil || st.Waiters != 0 || len(st.Holds) != 0 {
		t.Errorf("after all waiters gave up: %+v, %v", st, err)
	}
	if _, err := other.Acquire(t.Context(), requestFor(name, "other")); err != nil {
		t.Errorf("Acquire of a name that nobody wants: %v", err)
	}
}

// TestLateJoin: a waiter gives up while its request for a place, or for a free name, is on its way.
// The server gets the request after the waiter has left the queue. Then the name goes to others,
// though the process goes on waiting for something else and renews the lease of its places.
func TestLateJoin(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	for name, key := range map[string]string{"held": "/held/a/", "free": "/free/k/"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holder := opened(t, srv.Addr())
			s, k := slowed(t, srv.Addr())
			if name == "held" {
				waitAllTheTime(t, holder, s)
				if _, err := holder.Acquire(t.Context(), requestFor(name, "holder")); err != nil {
					t.Fatal(err)
				}
			}
			k.dropNext(func(r *pb.TxnRequest) bool { return writes(r, key) })
			giveUp, waited := startWait(t, s, name)
			late := <-k.held
			n, _ := k.doneSince(0, name)
			giveUp()
			if err := <-waited; !errors.Is(err, context.Canceled) {
				t.Fatalf("Wait: %v", err)
			}
			server.Eventually(t, func() error {
				if _, left := k.doneSince(n, name); !left {
					return errors.New("the waiter has not left the queue")
				}
				return nil
			})
			reply, err := k.KVClient.Txn(t.Context(), late)
			if err != nil || reply.Succeeded {
				t.Errorf("the server gets the request after the waiter has left: %v, %v", reply.GetSucceeded(), err)
			}
			holder.Release(t.Context(), name, "holder", 0)
			checkFree(t, holder, name)
		})
	}
}

// startWait starts a waiter. It returns a function that makes the waiter give up, and a channel
// with the error of Wait.
func startWait(t *testing.T, s *Store, name string) (giveUp func(), waited chan error) {
	ctx, cancel := context.WithCancel(t.Context())
	waited = make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, requestFor(name, "waiter"), true)
		waited <- err
	}()
	return cancel, waited
}

// TestLeaveGoesOn: the server is silent when a waiter gives up, for longer than a call lasts. The
// waiter leaves the queue when the server answers again, though the process goes on waiting.
func TestLeaveGoesOn(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	holder := opened(t, srv.Addr())
	s, k := slowed(t, srv.Addr())
	waitAllTheTime(t, holder, s)
	if _, err := holder.Acquire(t.Context(), requestFor("job", "holder")); err != nil {
		t.Fatal(err)
	}
	giveUp, waited := startWait(t, s, "job")
	server.Eventually(t, func() error { return hasWaiters(t, holder, "job", 1) })
	k.dropNext(func(r *pb.TxnRequest) bool { return mentions(r, "job") })
	giveUp()
	<-waited
	<-k.held // the request to leave the queue
	server.Eventually(t, func() error { return hasWaiters(t, holder, "job", 0) })
	holder.Release(t.Context(), "job", "holder", 0)
	checkFree(t, holder, "job")
}

func hasWaiters(t *testing.T, s *Store, name string, want int) error {
	st, err := s.Inspect(t.Context(), name)
	if err == nil && st.Waiters != want {
		err = fmt.Errorf("%d waiters, want %d", st.Waiters, want)
	}
	return err
}
