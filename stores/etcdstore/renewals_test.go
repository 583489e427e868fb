package etcdstore

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// A slowLeases is a server that renews leases slowly. It counts the renewals that run.
type slowLeases struct {
	pb.UnimplementedLeaseServer
	renewals  chan struct{} // gets a value when a renewal begins
	reply     chan struct{} // closed when the server replies
	now, most atomic.Int32
}

func (s *slowLeases) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
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
	if most := slow.most.Load(); most != 1 {
		t.Errorf("%d renewals at the same time, with one member", most)
	}
}
