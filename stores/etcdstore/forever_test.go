package etcdstore

import (
	"context"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// A newLeader is a server whose leader has not begun to count leases. It reports what etcd reports
// then: a lease that it granted for 60 s has 9,223,372,036 s left.
type newLeader struct{ pb.UnimplementedLeaseServer }

func (newLeader) LeaseTimeToLive(_ context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	return &pb.LeaseTimeToLiveResponse{Header: &pb.ResponseHeader{ClusterId: 1}, ID: r.ID, TTL: 9_223_372_036, GrantedTTL: 60}, nil
}

// TestLeaseWithoutAnEnd: a lease never has more time left than it was granted for.
func TestLeaseWithoutAnEnd(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	pb.RegisterLeaseServer(srv, newLeader{})
	go srv.Serve(listener)
	defer srv.Stop()
	s := openedWith(t, Config{Endpoints: []string{listener.Addr().String()}}, Lazy())
	if left, err := s.conn.timeLeft(t.Context(), 7); left != time.Minute || err != nil {
		t.Errorf("%v are left of a lease of 60 s, %v", left, err)
	}
}
