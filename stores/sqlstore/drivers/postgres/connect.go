package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// A connector connects to the server and prepares statements, unless there is a pooler. A pooler
// may run each transaction in another process of the server. A statement that was prepared in one
// process is unknown in the others. The function findPath detects a pooler.
type connector struct {
	cfg      *pgx.ConnConfig
	password func() (string, error)
	fixed    bool // the URL says how statements are sent
	way      atomic.Int32

	mu   sync.Mutex
	last string // the password that was read last
}

// The ways to the server: directly, or through a pooler.
const (
	unknown int32 = iota
	direct
	pooled
)

// Connect implements driver.Connector. A connection through a pooler needs other settings than a
// direct connection. Connect expects the same path to the server as last time. Then it checks the
// new connection, and connects once more if the expectation was wrong.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	for {
		thought := c.way.Load()
		is := unknown
		conn, err := stdlib.GetConnector(*c.cfg,
			stdlib.OptionBeforeConnect(func(_ context.Context, cfg *pgx.ConnConfig) error { return c.prepare(cfg, thought) }),
			stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) (err error) {
				is, err = findPath(ctx, conn)
				return err
			}),
		).Connect(ctx)
		if err != nil {
			return nil, plain(err)
		}
		c.way.Store(is)
		if c.fixed || thought == is || is == pooled && thought == unknown {
			return c.wrap(conn), nil
		}
		conn.Close()
	}
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// prepare sets what differs between connections: the password and how statements are sent.
func (c *connector) prepare(cfg *pgx.ConnConfig, way int32) error {
	if way != direct && !c.fixed {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if c.password == nil {
		return nil
	}
	password, err := c.password()
	if err != nil {
		return err
	}
	cfg.Password = password
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = password
	return nil
}

// findPath finds out whether a connection goes to the server directly or through a pooler.
func findPath(ctx context.Context, conn *pgx.Conn) (int32, error) {
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return unknown, err
	}
	if pid == conn.PgConn().PID() {
		return direct, nil
	}
	return pooled, nil
}

// plain returns an error of pgx without the user and the database, which pgx puts in front of the
// reason.
func plain(err error) error {
	var connecting *pgconn.ConnectError
	if errors.As(err, &connecting) {
		return connecting.Unwrap()
	}
	return err
}

func (c *connector) secrets() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []string{c.last, c.cfg.Password, c.cfg.User}
}
