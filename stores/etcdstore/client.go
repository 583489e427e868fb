package etcdstore

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
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

	mu         sync.Mutex
	client     *etcdClient
	setup      *clientSetup // nil unless a goroutine makes the client
	askedAt    time.Time    // when lookForSilence last asked the members
	background sync.WaitGroup

	limits  limits
	cluster atomic.Uint64 // the id of the cluster that answered; 0 is unknown
}

// An etcdClient is a client that has logged in.
type etcdClient struct {
	*clientv3.Client
	kv      pb.KVClient   // sends transactions through the client
	cluster atomic.Uint64 // the id of the cluster of all members; 0 is unknown
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
	var user, password string
	if c.server.Credentials != nil {
		var err error
		if user, password, err = c.server.Credentials(ctx); err != nil {
			return nil, unavailable("credentials: %v", err)
		}
	}
	options := []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: maxCallTime / 2,
	})}
	if dial := c.server.Dial; dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		}))
	}
	if config := c.server.TLS; config != nil && config.ServerName != "" {
		options = append(options, grpc.WithAuthority(config.ServerName)) // gRPC ignores the name in config
	}
	cfg := clientv3.Config{
		Context: c.ctx, Endpoints: c.server.Endpoints, TLS: c.server.TLS,
		Username: user, Password: password, Logger: zap.NewNop(),
		DialTimeout: maxCallTime / 2, DialKeepAliveTime: probeAfter, DialKeepAliveTimeout: probeFor,
		DialOptions: options,
	}
	cfg.DialOptions = append(slices.Clip(options), relogin(cfg))
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	out := &etcdClient{Client: client, kv: clientv3.RetryKVClient(client)}
	if err := out.compareMembers(ctx); err != nil {
		_ = client.Close() // the other error matters
		return nil, err
	}
	return out, nil
}

// checkReply looks at the header of a reply, or at the error of the request, which it returns. It
// drops the client if the server does not accept its password any more and Config.Credentials can
// return another one. The next call then makes a new client. checkReply also drops the client, and
// returns an error, if the reply came from another cluster than earlier replies.
func (c *connection) checkReply(client *etcdClient, h *pb.ResponseHeader, err error) error {
	if err != nil {
		if c.server.Credentials != nil && isRefusal(err, rpctypes.ErrAuthFailed) {
			c.drop(client)
		}
		return err
	}
	client.cluster.CompareAndSwap(0, h.ClusterId)
	if client.cluster.Load() != h.ClusterId {
		c.drop(client)
		return errOtherCluster
	}
	c.cluster.Store(h.ClusterId)
	return nil
}

// drop closes a client, so that the next call makes a new one. Waiters open a new watch. Requests
// that are on their way to healthy members have a moment to finish.
func (c *connection) drop(client *etcdClient) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != client || c.ctx.Err() != nil {
		return
	}
	c.client = nil
	c.background.Go(func() {
		storekit.Sleep(c.ctx, closeLater)
		_ = client.Close() // the error only says that the context was cancelled
	})
}

// closeLater is how long a dropped client stays open.
const closeLater = 100 * time.Millisecond

const (
	silentAfter = time.Second
	// askEvery is the shortest time between two rounds of asking all members.
	askEvery = 3 * time.Second
)

// lookForSilence asks all members in the background, and makes a new client if some of them, or
// connections to them, are silent. It does nothing if it was called a short time ago.
func (c *connection) lookForSilence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	client := c.client
	if client == nil || c.ctx.Err() != nil || time.Since(c.askedAt) < askEvery {
		return
	}
	c.askedAt = time.Now()
	c.background.Go(func() {
		old := make(chan bool)
		go func() { old <- client.isStranded(c.ctx) }()
		silent, answered := false, false
		for _, a := range client.askMembers(c.ctx, silentAfter) {
			silent, answered = silent || a.silent, answered || a.cluster != 0
		}
		silent = <-old || silent
		if silent && answered {
			c.drop(client)
			c.limits.cancelSlow()
			_, _ = c.getClient(c.ctx) // calls that need the new client get the error
		}
	})
}

var errOtherCluster = errors.New("a member of another cluster replied")

func (c *connection) close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.background.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		_ = c.client.Close() // the error only says that the context was cancelled
	}
}

// commit sends one transaction. Like the other methods that send a request, it returns an error of
// package driver; see failure.
func (c *connection) commit(ctx context.Context, conds []*pb.Compare, then, otherwise []*pb.RequestOp) (*pb.TxnResponse, error) {
	client, err := c.getClient(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := client.kv.Txn(ctx, &pb.TxnRequest{Compare: conds, Success: then, Failure: otherwise})
	if err = c.checkReply(client, reply.GetHeader(), err); err != nil {
		return nil, failure(ctx, err, changes(then))
	}
	return reply, nil
}

// read reads keys. If the connection is lost meanwhile, the client of etcd repeats the request,
// which it does not do with a transaction.
func (c *connection) read(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	client, err := c.getClient(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := client.kv.Range(ctx, r)
	if err = c.checkReply(client, reply.GetHeader(), err); err != nil {
		return nil, failure(ctx, err, false)
	}
	return reply, nil
}

// readHold returns the key of a hold, or nil if the key does not belong to the hold any more.
func (c *connection) readHold(ctx context.Context, h *hold) (*mvccpb.KeyValue, error) {
	reply, err := c.read(ctx, &pb.RangeRequest{Key: []byte(h.key)})
	if err != nil || len(reply.Kvs) == 0 || !h.isValue(string(reply.Kvs[0].Value)) {
		return nil, err
	}
	return reply.Kvs[0], nil
}

// grantLease makes a lease, and returns its ID and its length in seconds. The server chooses the ID
// if the argument id is 0. A lease that exists already under the given ID is no error.
func (c *connection) grantLease(ctx context.Context, id clientv3.LeaseID, seconds int64) (clientv3.LeaseID, int64, error) {
	client, err := c.getClient(ctx)
	if err != nil {
		return 0, 0, err
	}
	reply, err := clientv3.RetryLeaseClient(client.Client).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: seconds})
	if id != 0 && rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCLeaseExist) {
		return id, seconds, nil
	}
	if err = c.checkReply(client, reply.GetHeader(), err); err != nil {
		return 0, 0, failure(ctx, err, false)
	}
	return clientv3.LeaseID(reply.ID), reply.TTL, nil
}

// keepAlive renews a lease, and returns its new length in seconds. If the lease is gone,
// isLeaseGone recognises the error. keepAlive sends one request. The method KeepAliveOnce of
// clientv3 would repeat the request without a pause while the server is down.
func (c *connection) keepAlive(ctx context.Context, id clientv3.LeaseID) (int64, error) {
	client, err := c.getClient(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	reply := &pb.LeaseKeepAliveResponse{}
	stream, err := clientv3.RetryLeaseClient(client.Client).LeaseKeepAlive(ctx)
	if err == nil {
		err = stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
	}
	if err == nil {
		reply, err = stream.Recv()
	}
	err = c.checkReply(client, reply.GetHeader(), err)
	if err == nil && reply.TTL <= 0 {
		err = rpctypes.ErrLeaseNotFound
	}
	if err != nil {
		return 0, failure(ctx, err, true)
	}
	return reply.TTL, nil
}

// timeLeft returns the remaining time of a lease in whole seconds, rounded down, or 0 if the lease
// is gone or not known.
func (c *connection) timeLeft(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	client, err := c.getClient(ctx)
	if err != nil || id == 0 {
		return 0, err
	}
	reply, err := clientv3.RetryLeaseClient(client.Client).LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(id)})
	if err = c.checkReply(client, reply.GetHeader(), err); err != nil {
		return 0, failure(ctx, err, false)
	}
	left := max(0, reply.TTL)
	if reply.GrantedTTL > 0 { // a new leader that does not count leases yet says 292 years
		left = min(left, reply.GrantedTTL)
	}
	return time.Duration(left) * time.Second, nil
}
