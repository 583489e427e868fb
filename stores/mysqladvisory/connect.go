package mysqladvisory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
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
// of the pool. Pass the context that the dial function gets, and the new connection. The store sets
// deadlines on conn, and closes it. A pool that does not call Dialed works too, but a lock costs
// more.
func Dialed(ctx context.Context, conn net.Conn) {
	if known, ok := ctx.Value(dialedKey{}).(func(net.Conn)); ok {
		known(conn)
	}
}

// Connect implements advisory.Dialect. It takes a connection from the pool.
func (d *dialer) Connect(ctx context.Context) (*conn, error) {
	var socket net.Conn
	sc, err := d.db.Conn(context.WithValue(ctx, dialedKey{}, func(c net.Conn) { socket = c }))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: no connection in time; the server is silent, or the pool has none left", driver.ErrUnavailable)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return newConn(sc, socket, d.cfg), nil
}

// SetUp implements advisory.Dialect.
func (d *dialer) SetUp(c *conn) error {
	if c.looksAway() {
		return storekit.Invalidf("the pool has checkConnLiveness=false, so a holder would learn too late that its connection has ended; leave that option out of the DSN")
	}
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
	if _, err := c.exec(setUp(mariaDB, d.cfg.SessionTimeout(), d.cfg.LossDelay/5)); err != nil {
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
	least := []int{5, 7, 8}
	if mariaDB = strings.Contains(version, "MariaDB"); mariaDB {
		least = []int{10, 1, 2}
	}
	if storekit.OlderVersion(strings.TrimPrefix(version, "5.5.5-"), least...) { // MariaDB has this prefix for replication
		return mariaDB, storekit.Invalidf("the server is version %s; named locks need MySQL 5.7.8 or MariaDB 10.1.2: use a lease table (package sqlstore, mysql://)", version)
	}
	return mariaDB, nil
}

// Conflict implements advisory.Dialect. A server that was restarted counts its sessions from the
// beginning again. So a session with the number of another one must also have its mark.
func (d *dialer) Conflict(c, other *conn) error {
	switch {
	case c.server != other.server:
		return errTwoServers
	case c.id != other.id:
		return nil
	}
	r, err := c.queryOne(ping(other.mark))
	if err == nil && r.isOne(0) {
		err = errOtherSession
	}
	return err
}

// Probes implements advisory.Dialect.
func (d *dialer) Probes(_ *conn, alone bool) int {
	if alone {
		return 2
	}
	return 0
}
