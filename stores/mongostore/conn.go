package mongostore

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// searchTimeout is how long a request looks for a primary before it fails. A caller that waits for
// a lock then tries again.
const searchTimeout = 2 * time.Second

// A conn is the collection of a store, with its client.
type conn struct {
	client *mongo.Client
	locks  *mongo.Collection
	hosts  []string
	calls  storekit.Calls // that use the client
}

// connect makes the client. It sends no request, except to the name server for mongodb+srv:.
func connect(ctx context.Context, c *Config) (*conn, error) {
	uri := c.URI
	if c.Credentials != nil {
		user, password, err := c.Credentials(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w: credentials: %w", driver.ErrUnavailable, err)
		}
		uri = withLogin(uri, user, password)
	}
	o := options.Client().ApplyURI(uri)
	if err := o.Validate(); err != nil {
		return nil, badURI(uri, err)
	}
	if c.TLS != nil {
		o.SetTLSConfig(c.TLS.Clone())
	}
	if c.Dial != nil {
		o.SetDialer(dialer(c.Dial))
	}
	if o.AppName == nil {
		o.SetAppName("padlock")
	}
	o.SetServerSelectionTimeout(searchTimeout)
	durable := writeconcern.Majority()
	journal := true
	durable.Journal = &journal
	o.SetWriteConcern(durable).SetReadConcern(readconcern.Majority()).SetReadPreference(readpref.Primary())
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, badURI(uri, err)
	}
	own := &conn{client: client, locks: client.Database(c.Database).Collection(c.Collection), hosts: o.Hosts}
	own.calls.Open()
	return own, nil
}

// hasPassword reports whether a connection string has a password, which may have a slash in it.
func hasPassword(uri string) bool {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "?")
	login, _, ok := strings.Cut(rest, "@")
	return ok && strings.Contains(login, ":")
}

// withLogin puts a user and a password into a connection string. The client then finds the database
// of the user as it always does: by authSource, or by the database of the string. It ignores
// authSource if the string has no user.
func withLogin(uri, user, password string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	hosts, _, _ := strings.Cut(rest, "?")
	rest = rest[strings.LastIndexByte(hosts, '@')+1:]
	escape := func(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
	return scheme + "://" + escape(user) + ":" + escape(password) + "@" + rest
}

// begin registers a call, so that close waits for it, and limits how long the call takes. The
// caller must call end when the call is over.
func (c *conn) begin(ctx context.Context) (limited context.Context, end func(), err error) {
	return c.calls.Enter(ctx, bounded)
}

// bounded ends a context that waits too long for a silent server.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, storekit.Patience)
}

func (c *conn) close() {
	first := c.calls.End()
	c.calls.Work.Wait()
	if first {
		ctx, cancel := bounded(context.Background())
		defer cancel()
		_ = c.client.Disconnect(ctx) // the connections are closed in any case
	}
}

// A dialer makes connections for the client.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// DialContext implements options.ContextDialer.
func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// badURI returns the error for a connection string that the client refuses. The client's error may
// quote the string. If the string contains a user, and perhaps a password, badURI leaves out the
// client's error.
func badURI(uri string, err error) error {
	if strings.Contains(uri, "@") {
		return storekit.Invalidf("MongoDB's client refuses the connection string; check the hosts and the options")
	}
	return storekit.Invalidf("MongoDB's client refuses the connection string: %s", plain(err))
}
