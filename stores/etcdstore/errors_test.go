package etcdstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/padlock-go/padlock/driver"
)

// TestFailure: a request that the server refused has changed nothing, unless the refusal may come
// after the effect, and the store still recognises the server's own error. If no reply came, the error says whether the request could
// have changed something. To translate an error again changes nothing.
func TestFailure(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for i := range refusals {
		r := &refusals[i]
		err := failure(ctx, failure(ctx, r.err, true), true)
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) != r.late || !isRefusal(err, r.err) || !strings.Contains(err.Error(), r.advice) {
			t.Errorf("%v: %v", r.err, err)
		}
		if err := failure(ctx, r.err, false); errors.Is(err, driver.ErrUncertain) {
			t.Errorf("%v of a request that only reads: %v", r.err, err)
		}
		if other := &refusals[(i+1)%len(refusals)]; isRefusal(err, other.err) {
			t.Errorf("%v: taken for %v", err, other.err)
		}
	}
	if err := failure(ctx, rpctypes.ErrNoSpace, true); !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("no space: %v; etcd may send it after the effect", err)
	}
	lost := status.Error(codes.Unavailable, "the connection was lost")
	for _, c := range []struct {
		ops  []*pb.RequestOp
		want error
	}{
		{[]*pb.RequestOp{getKeys("a", ""), getKeys("a", "b")}, driver.ErrUnavailable},
		{[]*pb.RequestOp{getKeys("a", ""), deleteKey("a")}, driver.ErrUncertain},
		{[]*pb.RequestOp{putKey("a", "", 0)}, driver.ErrUncertain},
		{[]*pb.RequestOp{nested(nil, []*pb.RequestOp{deleteKey("a")}, nil)}, driver.ErrUncertain},
	} {
		if err := failure(ctx, lost, changes(c.ops)); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.ops, err, c.want)
		}
	}
}
