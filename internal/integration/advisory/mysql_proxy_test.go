package advisory_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
)

// A multiplexer is a connector that gives its connections the sessions of one or two others, like a
// proxy that shares sessions between clients. Each statement goes to the session that is next.
type multiplexer struct {
	dsn      string
	sessions int                       // 0: each connection has a session of its own
	before   func(query string) string // a statement to run before a query; "" for none
	fail     func(query string) error  // the server's answer; nil lets it answer itself
	lose     func(query string) bool   // whether the reply is lost and the session stays behind
	drop     func(query string) bool   // whether the query is lost and the session stays behind

	inner  sqldriver.Connector
	mu     sync.Mutex
	shared []sqldriver.Conn
	next   int
}

func (m *multiplexer) Driver() sqldriver.Driver { return m.inner.Driver() }

func (m *multiplexer) Connect(ctx context.Context) (sqldriver.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.shared) > 0 || m.sessions > 0 {
		return &shareConn{m: m}, m.share(ctx, m.sessions)
	}
	c, err := m.inner.Connect(ctx)
	return &shareConn{m: m, own: c}, err
}

// share makes the shared sessions.
func (m *multiplexer) share(ctx context.Context, n int) error {
	for len(m.shared) < n {
		c, err := m.inner.Connect(ctx)
		if err != nil {
			return err
		}
		m.shared = append(m.shared, c)
	}
	return nil
}

// begin makes all connections share n sessions from now on.
func (m *multiplexer) begin(t testing.TB, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	noError(t, m.share(t.Context(), n))
}

// A shareConn is a client's connection to the multiplexer.
type shareConn struct {
	m    *multiplexer
	own  sqldriver.Conn
	left bool // the session stays behind
}

func (c *shareConn) Prepare(string) (sqldriver.Stmt, error) { return nil, errors.New("unused") }
func (c *shareConn) Begin() (sqldriver.Tx, error)           { return nil, errors.New("unused") }
func (c *shareConn) Close() error {
	if c.own != nil && !c.left {
		return c.own.Close()
	}
	return nil
}

// session returns the session for the next statement.
func (c *shareConn) session(ctx context.Context, query string) (sqldriver.Conn, error) {
	s := c.own
	if len(c.m.shared) > 0 {
		s = c.m.shared[c.m.next%len(c.m.shared)]
		c.m.next++
	}
	if c.m.fail != nil {
		if err := c.m.fail(query); err != nil {
			return nil, err
		}
	}
	if c.m.before != nil {
		if first := c.m.before(query); first != "" {
			if _, err := s.(sqldriver.ExecerContext).ExecContext(ctx, first, nil); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (c *shareConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.drop != nil && c.m.drop(query) {
		c.left = true
		return nil, mysql.ErrInvalidConn
	}
	s, err := c.session(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.(sqldriver.QueryerContext).QueryContext(ctx, query, args)
	if err == nil && c.m.lose != nil && c.m.lose(query) {
		c.left = true
		rows.Close()
		return nil, mysql.ErrInvalidConn
	}
	return rows, err
}

func (c *shareConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	s, err := c.session(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.(sqldriver.ExecerContext).ExecContext(ctx, query, args)
}

// pool returns a pool behind the multiplexer.
func (m *multiplexer) pool(t testing.TB) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(m.dsn)
	noError(t, err)
	m.inner, err = mysql.NewConnector(cfg)
	noError(t, err)
	db := sql.OpenDB(m)
	t.Cleanup(func() {
		db.Close()
		for _, c := range m.shared {
			c.Close()
		}
	})
	return db
}

// mustOpenThrough opens a store behind a multiplexer.
func mustOpenThrough(t testing.TB, m *multiplexer) *mysqladvisory.Store {
	t.Helper()
	s, err := mysqladvisory.Open(t.Context(), m.pool(t))
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Behind a proxy that shares sessions between clients, named locks exclude nobody, so the store
// does not open: when all connections share one session, and when the sessions take turns.
func TestMultiplexing(t *testing.T) {
	t.Parallel()
	dsn := mariadb.shared(t).URL()
	for _, sessions := range []int{1, 2, 3, 5} {
		m := &multiplexer{dsn: dsn, sessions: sessions}
		s, err := mysqladvisory.Open(t.Context(), m.pool(t))
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "multiplexing") || !strings.Contains(err.Error(), "sqlstore") {
			t.Errorf("a proxy with %d sessions: %v", sessions, err)
		}
	}
}

// A proxy that begins to share sessions later is noticed by the ping of a connection with holds,
// and by the next try.
func TestLateMultiplexing(t *testing.T) {
	t.Parallel()
	m := &multiplexer{dsn: mariadb.shared(t).URL()}
	s := mustOpenThrough(t, m)
	g := take(t, s, request(t.Name()))
	m.begin(t, 2)
	ends(t, g.Bound)
	if err := context.Cause(g.Bound); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("the cause is %v", err)
	}
	if _, err := s.Acquire(t.Context(), request(t.Name()+" other")); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Acquire behind a proxy that shares sessions: %v", err)
	}
}
