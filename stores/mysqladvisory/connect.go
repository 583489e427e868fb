package mysqladvisory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A dialer takes connections from the pool and sets up their sessions. It never gives a connection
// back to the pool.
type dialer struct {
	db     *sql.DB
	cfg    *config
	server atomic.Pointer[string] // names the server, to distinguish it from others
}

type dialedKey struct{}

// Dialed tells the store about a network connection of the pool. Call Dialed in the dial function
// of the pool. Pass the context that the dial function gets, and the new connection.
//
// The store sets deadlines on conn, and closes conn when the connection's locks are lost. Between
// statements the store calls the method ResetSession of the driver's connection, to find out
// whether conn has ended. That method must not send anything.
//
// A pool that does not call Dialed works too. A lock then costs more, and the store notices only by
// a ping that a lock is lost.
func Dialed(ctx context.Context, conn net.Conn) {
	if known, ok := ctx.Value(dialedKey{}).(func(net.Conn)); ok {
		known(conn)
	}
}

// Connect implements advisory.Dialect.
func (d *dialer) Connect(ctx context.Context, others func() []*conn) (*conn, error) {
	return advisory.Connect(ctx, d.openConn, func(ctx context.Context, c *conn) error { return d.checkProxy(ctx, c, others()) })
}

// openConn takes a connection from the pool and prepares its session.
func (d *dialer) openConn(ctx context.Context) (*conn, error) {
	var socket net.Conn
	sc, err := d.db.Conn(context.WithValue(ctx, dialedKey{}, func(c net.Conn) { socket = c }))
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("%w: no connection within %v; the server is silent, or the pool has none left", driver.ErrUnavailable, advisory.ConnectLimit)
		}
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	c := newConn(sc, socket, d.cfg)
	if err := advisory.Within(ctx, c, func() error { return d.setUp(c) }); err != nil {
		return nil, err
	}
	return c, nil
}

// setUp sets the session up and checks the server.
func (d *dialer) setUp(c *conn) error {
	r, err := c.queryOne(describe + c.mark + describeRest)
	if err != nil {
		return err
	}
	c.id, c.server = r[0].String, r[5].String
	mariaDB, err := checkVersion(r[2].String)
	if err == nil && !r.isOne(4) {
		err = errNull
	}
	if err == nil && !r[1].Valid && d.cfg.schema == "" && !d.cfg.NoFences {
		err = storekit.Invalidf("the connection has no database for the table of fences; name one, or leave fences out (NoFences, fences=no)")
	}
	if err == nil {
		err = c.checkSession(true, r[3].String)
	}
	if err != nil {
		return err
	}
	rows, err := c.query(clusters)
	if err != nil {
		return err
	}
	if len(rows) == 1 && strings.EqualFold(rows[0][1].String, "ON") && !d.cfg.Lenient {
		return errGalera
	}
	if _, err := c.exec(setUp(mariaDB, d.cfg.sessionTimeout, d.cfg.pingEvery())); err != nil {
		return err
	}
	d.server.Store(&c.server)
	return nil
}

// checkVersion returns an error if the server is too old. It also reports whether the server is
// MariaDB. Before MariaDB 10.0.2 and MySQL 5.7.5, a session can have only one lock: when it takes a
// second lock, the server releases the first one without an error. The next few versions lack the
// setting that limits the time of a statement.
func checkVersion(version string) (mariaDB bool, err error) {
	least := [3]int{5, 7, 8}
	text := version
	if mariaDB = strings.Contains(version, "MariaDB"); mariaDB {
		least = [3]int{10, 1, 2}
		text = strings.TrimPrefix(text, "5.5.5-") // a prefix that replication needs
	}
	text, _, _ = strings.Cut(text, "-")
	for i, part := range strings.SplitN(text, ".", 3) {
		n, err := strconv.Atoi(part)
		switch {
		case err != nil || n > least[i]:
			return mariaDB, nil
		case n < least[i]:
			return mariaDB, storekit.Invalidf("the server is version %s; named locks need MySQL 5.7.8 or MariaDB 10.1.2: use a lease table (package sqlstore, mysql://)", version)
		}
	}
	return mariaDB, nil
}

// checkProxy returns an error if a proxy shares sessions between clients. Behind such a proxy, two
// connections may have the same session. If c is the only connection, checkProxy opens a second one
// and compares the two. While the proxy is busy, it may give them two sessions, and the check
// notices nothing. So each new connection is compared with the store's other connections, and every
// statement that takes a lock checks the session again.
func (d *dialer) checkProxy(ctx context.Context, c *conn, others []*conn) error {
	alone := true
	for _, other := range others {
		if other == c || !other.alive() {
			continue
		}
		if err := conflict(c, other); err != nil {
			other.Lose(err)
			return err
		}
		alone = alone && !other.alive()
	}
	if !alone {
		return nil
	}
	second, err := d.openConn(ctx)
	if err != nil {
		return err
	}
	defer second.Close()
	if err := compare(c, second); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for range 3 { // a proxy may give each statement another session
		if err := c.ping(); err != nil {
			return err
		}
	}
	return nil
}

// conflict compares a new connection with an old one, as compare does. There is no conflict if the
// old connection has ended unnoticed. Its session may have had the same number as the new session,
// because a server that was restarted counts its sessions from the beginning again.
func conflict(c, old *conn) error {
	err := compare(c, old)
	if err == nil {
		return nil
	}
	// The session of the old connection is running a statement. The session of the new connection
	// has just answered, so it is idle. So they are two sessions.
	if !old.mu.TryLock() {
		if err == errOtherSession {
			return nil
		}
		return err
	}
	defer old.mu.Unlock()
	if bad := old.ping(); bad != nil && !errors.Is(bad, errOtherSession) {
		return nil
	}
	return err
}

// compare returns an error if two connections share a session or lead to two servers.
func compare(a, b *conn) error {
	switch {
	case a.server != b.server:
		return errTwoServers
	case a.id == b.id:
		return errOtherSession
	}
	return nil
}
