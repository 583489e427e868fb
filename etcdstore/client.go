package etcdstore

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/padlock-go/padlock/driver"
)

const (
	// After probeAfter without data, a connection with a request or a watch is probed. Without an
	// answer within probeFor, it is closed. Probes without a request are off: a server with default
	// settings closes the connection after three of them, and gRPC writes an error to stderr.
	probeAfter = 10 * time.Second // the shortest that gRPC allows
	probeFor   = 3 * time.Second
)

// connection makes the client at the first use, because a login needs the server.
type connection struct {
	server Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	client *clientv3.Client
	kv     pb.KVClient // of client, for transactions

	limits  limits
	cluster atomic.Uint64 // the id of the cluster that answered; 0 is unknown
}

// getClient returns the client.
func (c *connection) getClient(ctx context.Context) (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil || c.ctx.Err() != nil {
		if c.client == nil {
			return nil, driver.ErrClosed
		}
		return c.client, nil
	}
	user, password := c.server.User, c.server.Password
	if c.server.Credentials != nil {
		var err error
		if user, password, err = c.server.Credentials(ctx); err != nil {
			return nil, unavailable("credentials: %v", err)
		}
	}
	client, err := clientv3.New(clientv3.Config{
		Context: c.ctx, Endpoints: c.server.Endpoints, TLS: c.server.TLS,
		Username: user, Password: password, Logger: zap.NewNop(),
		DialTimeout: patience / 2, DialKeepAliveTime: probeAfter, DialKeepAliveTimeout: probeFor,
		DialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: patience / 2,
		})},
	})
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	c.client, c.kv = client, clientv3.RetryKVClient(client)
	return client, nil
}

func (c *connection) close() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		_ = c.client.Close() // the only error is that the context was cancelled
	}
}

// commit makes one transaction.
func (c *connection) commit(ctx context.Context, conds []*pb.Compare, then, otherwise []*pb.RequestOp) (*pb.TxnResponse, error) {
	if _, err := c.getClient(ctx); err != nil {
		return nil, err
	}
	reply, err := c.kv.Txn(ctx, &pb.TxnRequest{Compare: conds, Success: then, Failure: otherwise})
	if err == nil {
		c.cluster.Store(reply.Header.ClusterId)
	}
	return reply, err
}

// grantLease makes a lease. If id is not 0 and the lease exists already, that is no error.
func (c *connection) grantLease(ctx context.Context, id clientv3.LeaseID, seconds int64) (clientv3.LeaseID, int64, error) {
	client, err := c.getClient(ctx)
	if err != nil {
		return 0, 0, err
	}
	reply, err := clientv3.RetryLeaseClient(client).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: seconds})
	if id != 0 && rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCLeaseExist) {
		return id, seconds, nil
	}
	if err != nil {
		return 0, 0, err
	}
	c.cluster.Store(reply.Header.ClusterId)
	return clientv3.LeaseID(reply.ID), reply.TTL, nil
}

// keepAlive gives a lease its whole time again, and returns that time in seconds. It returns
// rpctypes.ErrLeaseNotFound if the lease is gone. It makes one request; clientv3's KeepAliveOnce
// repeats without a pause while the server is down.
func (c *connection) keepAlive(ctx context.Context, id clientv3.LeaseID) (int64, error) {
	client, err := c.getClient(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	stream, err := clientv3.RetryLeaseClient(client).LeaseKeepAlive(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return 0, err
	}
	reply, err := stream.Recv()
	if err == nil && reply.TTL <= 0 {
		err = rpctypes.ErrLeaseNotFound
	}
	if err != nil {
		return 0, err
	}
	return reply.TTL, nil
}

// timeLeft returns how long a lease lasts if it is not renewed, or 0 if that is not known.
func (c *connection) timeLeft(ctx context.Context, id clientv3.LeaseID) time.Duration {
	client, err := c.getClient(ctx)
	if err != nil || id == 0 {
		return 0
	}
	reply, err := client.TimeToLive(ctx, id)
	if err != nil {
		return 0
	}
	return time.Duration(max(0, reply.TTL)) * time.Second
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
