package etcdstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// A fullKV refuses each transaction with a put, as a server does that ran out of space after it has
// granted a lease. The server may notice that only when it has carried the transaction out.
type fullKV struct {
	pb.KVClient
	full atomic.Bool
	late func(*pb.TxnRequest) bool // the transaction is carried out and then refused
}

func (k *fullKV) Txn(ctx context.Context, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if !k.full.Load() || !writes(r, "") {
		return k.KVClient.Txn(ctx, r, opts...)
	}
	if k.late(r) {
		if _, err := k.KVClient.Txn(ctx, r, opts...); err != nil {
			return nil, err
		}
	}
	return nil, rpctypes.ErrGRPCNoSpace
}

// mayFill puts a fullKV in front of the server.
func (s *Store) mayFill(t *testing.T, late func(*pb.TxnRequest) bool) *fullKV {
	t.Helper()
	client, err := s.conn.getClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := &fullKV{KVClient: client.kv, late: late}
	client.kv = k
	return k
}

func always(*pb.TxnRequest) bool { return true }
func never(*pb.TxnRequest) bool  { return false }

type steppedClock struct {
	driver.Clock
	plus time.Duration
}

func (c *steppedClock) Now() driver.Instant { return c.Clock.Now().Add(c.plus) }

// TestNoSpaceForAMove: the server grants a lease for the holds that are extended in time, and then
// refuses to move them to it. They are renewed.
func TestNoSpaceForAMove(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	for name, late := range map[string]func(*pb.TxnRequest) bool{"refused": never, "moved": always} {
		clock := &steppedClock{Clock: driver.SystemClock()}
		s := openedWith(t, Config{Endpoints: []string{srv.Addr()}}, WithClock(clock), Prefix(name))
		k := s.mayFill(t, late)
		const ttl = 300 * time.Second
		extend := func(names ...string) {
			t.Helper()
			for _, name := range names {
				if g, err := s.Extend(t.Context(), name, "one", ttl); err != nil || g.TTL < ttl*9/10 {
					t.Errorf("Extend of %q: %+v, %v", name, g, err)
				}
			}
		}
		for _, name := range []string{"in time", "late"} {
			if _, err := s.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf("one"), TTL: ttl}); err != nil {
				t.Fatal(err)
			}
		}
		clock.plus += ttl / 3
		extend("late", "in time")
		k.full.Store(true)
		for range 3 {
			clock.plus += ttl / 2 // the first time, "late" is late
			extend("in time")
		}
		k.full.Store(false)
		clock.plus += ttl / 3
		extend("in time")
	}
}

// TestNoSpaceForAPlace: a waiter that asked for a place on a server without space leaves nothing
// behind, even if it got the place, while the process goes on waiting for something else.
func TestNoSpaceForAPlace(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	holder, s := opened(t, srv.Addr()), opened(t, srv.Addr())
	asked := make(chan bool, 1000)
	k := s.mayFill(t, func(r *pb.TxnRequest) bool {
		if !writes(r, "/job/a/") {
			return false
		}
		asked <- true
		return true
	})
	waitAllTheTime(t, holder, s)
	if _, err := holder.Acquire(t.Context(), requestFor("job", "holder")); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, func() error { return hasWaiters(t, holder, "long", 1) })
	k.full.Store(true)
	giveUp, waited := startWait(t, s, "job")
	<-asked
	server.Eventually(t, func() error { return hasWaiters(t, holder, "job", 1) })
	giveUp()
	<-waited
	server.Eventually(t, func() error { return hasWaiters(t, holder, "job", 0) })
}

// TestNoSpaceAfterARelease: the server ends a hold, keeps its cool-down, and then says that it has no
// space. The outcome is uncertain, and the cool-down stays.
func TestNoSpaceAfterARelease(t *testing.T) {
	t.Parallel()
	s := opened(t, server.Etcd(t, server.EtcdOptions{}).Addr())
	k := s.mayFill(t, always)
	if _, err := s.Acquire(t.Context(), requestFor("job", "one")); err != nil {
		t.Fatal(err)
	}
	k.full.Store(true)
	if o, err := s.Release(t.Context(), "job", "one", time.Minute); o != driver.OutcomeGone || !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Release: %v, %v", o, err)
	}
	if o, err := s.Release(t.Context(), "job", "one", time.Minute); o != driver.OutcomeGone || err != nil {
		t.Errorf("a second Release: %v, %v", o, err)
	}
	if st, err := s.Inspect(t.Context(), "job"); err != nil || len(st.Holds) != 1 || !st.Holds[0].Cooling {
		t.Errorf("after the release: %+v, %v", st.Holds, err)
	}
}
