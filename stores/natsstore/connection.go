package natsstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// oneTry is how long a request waits for its reply. A call has time for two tries.
const oneTry = 2 * time.Second

// A connection makes the client when a call first needs it. The client then connects again by
// itself, until it is closed. If it gives up nevertheless, the next call makes another one.
type connection struct {
	servers  string // URLs without a login, with commas between them
	name     string // of the bucket
	options  []nats.Option
	password func() (string, error) // reads the file with the password; nil without one

	mu     sync.Mutex
	made   *client // nil if there is none
	setup  *setup  // nil unless made is being made, or connects again
	closed bool
	said   error // the last error that a server sent outside of a reply
	saidAt time.Time
}

// A client is what one call uses. Its requests must end with up.
type client struct {
	*nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream // of the bucket, for reads
	kv     jetstream.KeyValue
	up     context.Context // ends when the connection is lost, or for good
	cut    context.CancelFunc
	over   bool // it has given up
}

// A setup is an attempt to connect. All calls that need the client wait for the same one: NATS's
// client would keep them waiting for as long as it connects.
type setup struct {
	done   chan struct{} // closed at the end; then the other fields are set
	client client
	err    error
}

// stream returns the name of the stream of the bucket.
func (c *connection) stream() string { return "KV_" + c.name }

func newConnection(servers, bucket string, options []nats.Option) *connection {
	c := &connection{servers: servers, name: bucket}
	c.options = append([]nats.Option{nats.Name("padlock")}, options...)
	c.options = append(c.options,
		nats.Timeout(oneTry), nats.SkipHostLookup(), // a look-up of a name counts, too
		nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.IgnoreAuthErrorAbort(),                                 // the password may be right again later
		nats.ReconnectBufSize(-1),                                   // what was not sent is not kept, since nobody waits for it any more
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), // a silent server is left after three seconds
		nats.NoCallbacksAfterClientClose(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.note(err) }),
		func(o *nats.Options) error {
			o.AllowReconnect, o.RetryOnFailedConnect = true, false
			o.CustomReconnectDelayCB, o.ReconnectToServerCB = nil, nil
			return nil
		},
	)
	return c
}

// client returns the client when it is connected. The first call makes it.
func (c *connection) client(ctx context.Context) (*client, error) {
	c.mu.Lock()
	s := c.setup
	switch {
	case c.closed:
		c.mu.Unlock()
		return nil, driver.ErrClosed
	case s == nil && c.made != nil:
		now := *c.made
		c.mu.Unlock()
		return &now, nil
	case s == nil:
		s = &setup{done: make(chan struct{})}
		c.setup = s
		go c.connect()
	}
	c.mu.Unlock()
	select {
	case <-s.done:
		return &s.client, s.err
	case <-ctx.Done():
		return nil, &storekit.NoReply{Err: explain(errors.New("the servers do not answer"), c.lastSaid()), Unsent: true}
	}
}

// connect makes the client, unless the store is closed meanwhile.
func (c *connection) connect() {
	made, err := c.dial(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		if made != nil {
			made.Close()
		}
		err = driver.ErrClosed
	case err == nil && made.over:
		err = errGone
	case err == nil:
		c.made = made
		if made.up.Err() != nil {
			return // it is lost already: back or gone follows
		}
	}
	c.finish(err)
}

// errGone is the error of calls that wait for a client that gives up.
var errGone = &storekit.NoReply{Err: errors.New("the connection is closed"), Unsent: true}

// finish tells the calls that wait for the client how it is.
func (c *connection) finish(err error) {
	s := c.setup
	if c.setup = nil; s == nil {
		return
	}
	if s.err = err; err == nil {
		s.client = *c.made
	}
	close(s.done)
}

// dial connects, and looks whether the bucket is there.
func (c *connection) dial(withBucket bool) (*client, error) {
	if c.password != nil {
		if _, err := c.password(); err != nil {
			return nil, &storekit.NoReply{Err: err, Unsent: true}
		}
	}
	made := &client{}
	made.up, made.cut = context.WithCancel(context.Background())
	nc, err := nats.Connect(c.servers, append(slices.Clone(c.options),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { c.lost(made) }),
		nats.ReconnectHandler(func(*nats.Conn) { c.back(made) }),
		nats.ClosedHandler(func(*nats.Conn) { c.gone(made) }),
	)...)
	if err != nil {
		return nil, &storekit.NoReply{Err: fmt.Errorf("%s: %w", c.servers, explain(err, c.lastSaid())), Unsent: true}
	}
	made.Conn = nc
	ctx, cancel := context.WithTimeout(context.Background(), oneTry)
	defer cancel()
	if made.js, err = jetstream.New(nc); err == nil && withBucket {
		err = made.open(ctx, c.name, c.stream())
	}
	if err != nil {
		nc.Close()
		return nil, failure(&storekit.NoReply{Err: explain(err, c.lastSaid()), Unsent: true}, c.name)
	}
	return made, nil
}

// open looks for the bucket, and lets all reads ask the leader of its stream. As the bucket is set,
// any replica may answer a read, and may be behind. A leader that was replaced and does not know it
// yet may be behind, too. That grants no lock: a Put names the message that it replaces, and most
// replicas must take it.
func (c *client) open(ctx context.Context, bucket, stream string) (err error) {
	if n := c.MaxPayload(); n < maxMessage {
		return fmt.Errorf("the servers take messages of %d bytes only: set their max_payload to 1MB, as it is by default", n)
	}
	if c.kv, err = c.js.KeyValue(ctx, bucket); err != nil {
		return err
	}
	if c.stream, err = c.js.Stream(ctx, stream); err != nil {
		return err
	}
	c.stream.CachedInfo().Config.AllowDirect = false // TestCost counts the reads of the leader
	return nil
}

// info asks the leader of a stream about it. While there is none, another replica may answer.
func (c *client) info(ctx context.Context, stream string, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	if opts == nil {
		return s.CachedInfo(), nil
	}
	return s.Info(ctx, opts...)
}

// lost ends what waits for a reply over the lost connection. Further calls wait for the next one.
func (c *connection) lost(made *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	made.cut()
	if c.made == made && c.setup == nil && !c.closed {
		c.setup = &setup{done: make(chan struct{})}
	}
}

// back lets calls go on: the client is connected again.
func (c *connection) back(made *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	made.up, made.cut = context.WithCancel(context.Background())
	if c.made == made {
		c.finish(nil)
	}
}

// gone forgets a client that has given up, as after an error of a server that it does not know.
func (c *connection) gone(made *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	made.cut()
	if made.over = true; c.made == made {
		c.made = nil
		if c.setup != nil {
			go c.connect() // for the calls that wait
		}
	}
}

func (c *connection) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said, c.saidAt = err, time.Now()
}

// lastSaid returns what a server said lately outside of a reply, or nil.
func (c *connection) lastSaid() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.saidAt) > driver.MaxSilence {
		return nil
	}
	return c.said
}

// Close closes the connection, or the one that is being made. It does not wait for servers that are
// silent: what comes later is closed then.
func (c *connection) Close() error {
	c.mu.Lock()
	c.closed = true
	made, s := c.made, c.setup
	if made != nil {
		made.cut()
		c.finish(driver.ErrClosed)
	}
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if made != nil {
			made.Close()
		} else if s != nil {
			<-s.done
		}
	}()
	select {
	case <-ended:
	case <-time.After(storekit.Patience):
	}
	return nil
}

// do sends a request. It repeats the request as long as certainly no server has got it, and repeats
// one that only reads in any case.
func do[T any](ctx context.Context, c *connection, reads bool, request func(context.Context, *client) (T, error)) (T, error) {
	var none T
	for {
		now, err := c.client(ctx)
		if err != nil {
			return none, storekit.Failure(err)
		}
		value, err := try(ctx, now, request)
		if final(err) {
			return value, failure(err, c.name)
		}
		again := reads || errors.Is(err, errUnsent) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrReconnectBufExceeded)
		if !again || !storekit.Sleep(ctx, 10*time.Millisecond+rand.N(40*time.Millisecond)) {
			return none, storekit.Failure(&storekit.NoReply{Err: explain(err, c.lastSaid()), Unsent: again || errors.Is(err, nats.ErrMaxPayload)})
		}
	}
}

// errUnsent is the end of a try without a request.
var errUnsent = errors.New("the connection is lost, or the time was over before the request was sent")

// try sends a request once. It gives the request up when the connection is lost, since no reply
// comes over another one.
func try[T any](ctx context.Context, c *client, request func(context.Context, *client) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	defer context.AfterFunc(c.up, cancel)()
	if ctx.Err() != nil || c.up.Err() != nil {
		var none T
		return none, errUnsent
	}
	return within(ctx, func() (T, error) { return request(ctx, c) })
}

// within returns what f returns, or the error of ctx if that ends first. NATS's client does not
// look at ctx while it connects again, and nobody hears of the result then.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
