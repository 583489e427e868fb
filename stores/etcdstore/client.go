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
	// While a request or a watch is open and no data has arrived for probeAfter, gRPC probes the
	// connection. If the server does not answer the probe within probeFor, gRPC closes the
	// connection. gRPC does not probe an idle connection: a server with default settings closes a
	// connection after three such probes, and gRPC then writes an error to stderr.
	probeAfter = 10 * time.Second // gRPC allows no shorter time
	probeFor   = 3 * time.Second
)

// A connection contains the etcd client of a store. It makes the client when a call first needs it,
// because making the client may log in, and a lazy store must open without the server.
type connection struct {
	server Config
	ctx    context.Context // cancelled by close
	cancel context.CancelFunc

	mu     sync.Mutex
	client *etcdClient
	setup  *clientSetup // nil unless a goroutine makes the client

	limits  limits
	cluster atomic.Uint64 // the id of the cluster that answered; 0 is unknown
}

// An etcdClient is a client that has logged in.
type etcdClient struct {
	*clientv3.Client
	kv pb.KVClient // sends transactions through the client
}

// A clientSetup is one attempt to make the client. All calls that need the client wait for the same
// attempt. So they wait at the same time and not one after the other if the server does not answer.
type clientSetup struct {
	done   chan struct{} // closed at the end; then the other fields are set
	client *etcdClient
	err    error
}

// getClient returns the client. The first call makes it.
func (c *connection) getClient(ctx context.Context) (*etcdClient, error) {
	c.mu.Lock()
	client, m := c.client, c.setup
	switch {
	case client != nil:
		c.mu.Unlock()
		return client, nil
	case c.ctx.Err() != nil:
		c.mu.Unlock()
		return nil, driver.ErrClosed
	case m == nil:
		m = &clientSetup{done: make(chan struct{})}
		c.setup = m
		go c.makeClient(m)
	}
	c.mu.Unlock()
	select {
	case <-m.done:
		return m.client, m.err
	case <-ctx.Done():
		return nil, failure(ctx, context.Cause(ctx), false)
	}
}

// makeClient makes the client, unless the store is closed meanwhile.
func (c *connection) makeClient(m *clientSetup) {
	ctx, cancel := c.limits.limit(c.ctx)
	defer cancel()
	client, err := c.newClient(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		if client != nil {
			_ = client.Close() // the error only says that the context was cancelled
		}
		client, err = nil, driver.ErrClosed
	}
	c.client = client
	c.setup, m.client, m.err = nil, client, err
	close(m.done)
}

func (c *connection) newClient(ctx context.Context) (*etcdClient, error) {
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
		DialTimeout: maxCallTime / 2, DialKeepAliveTime: probeAfter, DialKeepAliveTimeout: probeFor,
		DialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: maxCallTime / 2,
		})},
	})
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	return &etcdClient{client, clientv3.RetryKVClient(client)}, nil
}

// dropOldLogin drops a client if err says that the server does not accept its password any more and
// if Config.Credentials can return another one. The next call then makes a new client.
func (c *connection) dropOldLogin(client *etcdClient, err error) {
	if err == nil || c.server.Credentials == nil || !isRefusal(err, rpctypes.ErrAuthFailed) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == client {
		c.client = nil
		go client.Close() // waiters of this client open a new watch
	}
}

func (c *connection) close() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		_ = c.client.Close() // the error only says that the context was cancelled
	}
}

// commit sends one transaction.
func (c *connection) commit(ctx context.Context, conds []*pb.Compare, then, otherwise []*pb.RequestOp) (*pb.TxnResponse, error) {
	client, err := c.getClient(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := client.kv.Txn(ctx, &pb.TxnRequest{Compare: conds, Success: then, Failure: otherwise})
	if err == nil {
		c.cluster.Store(reply.Header.ClusterId)
	}
	c.dropOldLogin(client, err)
	return reply, err
}

// grantLease makes a lease, and returns its ID and its length in seconds. The server chooses the ID
// if the argument id is 0. A lease that exists already under the given ID is no error.
func (c *connection) grantLease(ctx context.Context, id clientv3.LeaseID, seconds int64) (clientv3.LeaseID, int64, error) {
	client, err := c.getClient(ctx)
	if err != nil {
		return 0, 0, err
	}
	reply, err := clientv3.RetryLeaseClient(client.Client).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: seconds})
	c.dropOldLogin(client, err)
	if id != 0 && rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCLeaseExist) {
		return id, seconds, nil
	}
	if err != nil {
		return 0, 0, err
	}
	c.cluster.Store(reply.Header.ClusterId)
	return clientv3.LeaseID(reply.ID), reply.TTL, nil
}

// keepAlive renews a lease, and returns its new length in seconds. It returns
// rpctypes.ErrLeaseNotFound if the lease is gone. It sends one request. The method KeepAliveOnce of
// clientv3 would repeat the request without a pause while the server is down.
func (c *connection) keepAlive(ctx context.Context, id clientv3.LeaseID) (int64, error) {
	client, err := c.getClient(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	stream, err := clientv3.RetryLeaseClient(client.Client).LeaseKeepAlive(ctx)
	if err != nil {
		c.dropOldLogin(client, err)
		return 0, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return 0, err
	}
	reply, err := stream.Recv()
	c.dropOldLogin(client, err)
	if err == nil && reply.TTL <= 0 {
		err = rpctypes.ErrLeaseNotFound
	}
	if err != nil {
		return 0, err
	}
	return reply.TTL, nil
}

// timeLeft returns the remaining time of a lease, or 0 if that is not known.
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
