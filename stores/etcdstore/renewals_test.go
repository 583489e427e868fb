package etcdstore

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// A slowLeases is a server that renews leases slowly. It counts the renewals that run.
type slowLeases struct {
	pb.UnimplementedLeaseServer
	renewals chan struct{} // gets a value when a renewal begins
	reply    chan struct{} // closed when the server replies

	mu   sync.Mutex
	all  []context.Context // of the renewals; each ends when the store gives the renewal up
	most int
}

// begin counts the renewals for which the store waits.
func (s *slowLeases) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, ctx)
	now := 0
	for _, c := range s.all {
		if c.Err() == nil {
			now++
		}
	}
	s.most = max(s.most, now)
}

func (s *slowLeases) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	s.begin(stream.Context())
	select {
	case s.renewals <- struct{}{}:
	default:
	}
	select {
	case <-s.reply:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	return stream.Send(&pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{ClusterId: 1}, ID: r.ID, TTL: placeLength})
}

// TestRenewalsWaitForReplies: a server replies late to the renewals of the places in queues. The
// store then sends no more renewals at the same time than it has members.
func TestRenewalsWaitForReplies(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowLeases{renewals: make(chan struct{}, 1), reply: make(chan struct{})}
	srv := grpc.NewServer()
	pb.RegisterLeaseServer(srv, slow)
	go srv.Serve(listener)
	defer srv.Stop()
	s, err := Open(t.Context(), Config{Endpoints: []string{listener.Addr().String()}}, Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := s.cfg.clock.Now()
	s.queueLease.set(&lease{id: 7, from: now, end: now.Add(placeLength * time.Second)})
	leave := s.queueLease.enter()
	<-slow.renewals
	<-time.After(3 * renewPlaces)
	close(slow.reply)
	leave()
	slow.mu.Lock()
	defer slow.mu.Unlock()
	if slow.most != 1 {
		t.Errorf("%d renewals at the same time, with one member", slow.most)
	}
}
