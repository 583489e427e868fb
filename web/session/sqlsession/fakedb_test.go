package sqlsession_test

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fakeDB understands the few statements of this package and nothing else, so
// that the store's own steps are tested here. The statements themselves are
// tried on real databases in internal/integration.
type fakeDB struct {
	mu   sync.Mutex
	rows map[string]*fakeRow
	seen []string // every statement
	fail []error  // of the next statements

	slowSweep bool // a sweep does not end before its context
}

// broken is the next failure, if there is one.
func (db *fakeDB) broken() (err error) {
	if len(db.fail) > 0 {
		err, db.fail = db.fail[0], db.fail[1:]
	}
	return err
}

// stateError is an error like those of PostgreSQL drivers.
type stateError string

func (e stateError) Error() string    { return "ERROR" }
func (e stateError) SQLState() string { return string(e) }

type fakeRow struct {
	version, expires int64
	data             []byte
}

func (db *fakeDB) Connect(context.Context) (driver.Conn, error) { return fakeConn{db}, nil }
func (db *fakeDB) Driver() driver.Driver                        { return nil }

type fakeConn struct{ db *fakeDB }

func (c fakeConn) Prepare(string) (driver.Stmt, error) { return nil, fmt.Errorf("not used") }
func (c fakeConn) Close() error                        { return nil }
func (c fakeConn) Begin() (driver.Tx, error)           { return nil, fmt.Errorf("no transaction is needed") }

const fakeNow = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

var until = regexp.MustCompile(`expires = (0|NOW \+ (\d+))|VALUES \(\?, \?, (0|NOW \+ (\d+)), \?\)`)

// expiry returns the value that a statement writes to the column "expires".
func expiry(q string) int64 {
	m := until.FindStringSubmatch(q)
	ms, _ := strconv.ParseInt(m[2]+m[4], 10, 64)
	if ms == 0 {
		return 0
	}
	return time.Now().UnixMilli() + ms
}

func (db *fakeDB) live(key string) *fakeRow {
	r := db.rows[key]
	if r == nil || r.expires != 0 && r.expires <= time.Now().UnixMilli() {
		return nil
	}
	return r
}

func (c fakeConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	q = strings.NewReplacer("(version IS NOT NULL AND (expires = 0 OR expires > "+fakeNow+"))", "LIVE", "version IS NOT NULL AND expires > 0 AND expires <= "+fakeNow, "OVER", fakeNow, "NOW").Replace(q)
	if strings.HasSuffix(q, "LIMIT 1000)") {
		return c.db.sweep(ctx, q)
	}
	c.db.seen = append(c.db.seen, q)
	if err := c.db.broken(); err != nil {
		return nil, err
	}
	arg := func(i int) any { return args[i].Value }
	for i := range args {
		if b, ok := arg(i).([]byte); ok && b == nil || arg(i) == nil {
			return nil, fmt.Errorf("NOT NULL constraint failed")
		}
	}
	switch shape := until.ReplaceAllString(q, "E"); shape {
	case "UPDATE padlock_sessions SET data = ?, version = ?, E WHERE id = ? AND version = ? AND LIVE":
		if r := c.db.live(arg(2).(string)); r != nil && r.version == arg(3) {
			*r = fakeRow{arg(1).(int64), expiry(q), arg(0).([]byte)}
			return driver.RowsAffected(1), nil
		}
	case "UPDATE padlock_sessions SET data = ?, version = ?, E WHERE id = ? AND NOT LIVE":
		key := arg(2).(string)
		if r := c.db.rows[key]; r != nil && c.db.live(key) == nil {
			*r = fakeRow{arg(1).(int64), expiry(q), arg(0).([]byte)}
			return driver.RowsAffected(1), nil
		}
	case "INSERT INTO padlock_sessions (id, version, expires, data) E ON CONFLICT (id) DO NOTHING":
		if key := arg(0).(string); c.db.rows[key] == nil {
			c.db.rows[key] = &fakeRow{arg(1).(int64), expiry(q), arg(2).([]byte)}
			return driver.RowsAffected(1), nil
		}
	case "DELETE FROM padlock_sessions WHERE id = ? AND LIVE", "DELETE FROM padlock_sessions WHERE id = ? AND version = ? AND LIVE":
		key := arg(0).(string)
		if r := c.db.live(key); r != nil && (len(args) == 1 || r.version == arg(1)) {
			delete(c.db.rows, key)
			return driver.RowsAffected(1), nil
		}
	case "UPDATE padlock_sessions SET E WHERE id = ? AND LIVE AND SUBSTR(data, 1, 4) <> ?":
		if r := c.db.live(arg(0).(string)); r != nil && !bytes.HasPrefix(r.data, arg(1).([]byte)) {
			r.expires = expiry(q)
			return driver.RowsAffected(1), nil
		}
	default:
		if !strings.HasPrefix(q, "CREATE ") {
			return nil, fmt.Errorf("fakeDB does not know %q", shape)
		}
	}
	return driver.RowsAffected(0), nil
}

// sweep is called with mu held.
func (db *fakeDB) sweep(ctx context.Context, q string) (driver.Result, error) {
	if q != "DELETE FROM padlock_sessions WHERE OVER AND id IN (SELECT id FROM padlock_sessions WHERE OVER LIMIT 1000)" {
		return nil, fmt.Errorf("fakeDB does not know %q", q)
	}
	db.seen = append(db.seen, q)
	if db.slowSweep {
		db.mu.Unlock()
		<-ctx.Done()
		db.mu.Lock()
		return nil, ctx.Err()
	}
	if err := db.broken(); err != nil {
		return nil, err
	}
	n := 0
	for key := range db.rows {
		if db.live(key) == nil && n < 1000 {
			delete(db.rows, key)
			n++
		}
	}
	return driver.RowsAffected(n), nil
}

func (c fakeConn) QueryContext(_ context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	if strings.Contains(q, "database_list") { // it has no file
		return &oneText{}, nil
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if err := c.db.broken(); err != nil {
		return nil, err
	}
	q = strings.ReplaceAll(q, fakeNow, "NOW")
	if q == "SELECT id, version, expires, data FROM padlock_sessions WHERE 1 = 0" {
		return &fakeRows{}, nil
	}
	if q != "SELECT data, version, expires, NOW FROM padlock_sessions WHERE id = ? AND (version IS NOT NULL AND (expires = 0 OR expires > NOW))" {
		return nil, fmt.Errorf("fakeDB does not know %q", q)
	}
	r := c.db.live(args[0].Value.(string))
	if r == nil {
		return &fakeRows{}, nil
	}
	return &fakeRows{[]driver.Value{r.data, r.version, r.expires, time.Now().UnixMilli()}}, nil
}

type oneText struct{ fakeRows }

func (*oneText) Columns() []string { return []string{"file"} }
func (r *oneText) Next(to []driver.Value) error {
	to[0] = ""
	return nil
}

type fakeRows struct{ row []driver.Value }

func (*fakeRows) Columns() []string { return []string{"data", "version", "expires", "now"} }
func (*fakeRows) Close() error      { return nil }
func (r *fakeRows) Next(to []driver.Value) error {
	if r.row == nil {
		return io.EOF
	}
	copy(to, r.row)
	r.row = nil
	return nil
}
