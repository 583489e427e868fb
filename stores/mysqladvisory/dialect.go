package mysqladvisory

import (
	"context"
	"encoding/json"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

const (
	// waitSlice is how long one statement waits for a lock. Then the waiter loses its place.
	waitSlice = 10 * time.Minute
	// waiterTimeout is the longest time between two statements in the session of a waiter. After
	// that time the server ends the session, because the waiter's process may have been stopped.
	// The server counts whole seconds.
	waiterTimeout = time.Second
	deadWaiter    = 3 * time.Second
)

// A dialect says to MySQL and MariaDB what package advisory wants.
type dialect struct {
	dialer
	sql statements
}

var _ advisory.Dialect[*conn] = (*dialect)(nil)

// Key implements advisory.Dialect.
func (d *dialect) Key(name string) string { return lockName(name) }

// Place implements advisory.Dialect.
func (d *dialect) Place() (known string, way any) {
	if server := d.server.Load(); server != nil {
		known = *server
	}
	return known, d.db
}

// Try implements advisory.Dialect.
func (d *dialect) Try(c *conn, l advisory.Lock, r *driver.Request) (advisory.Grant, error) {
	row, err := c.queryOne(take(l.Key, 0))
	if hasNumber(err, deadlock, userLockDeadlock) {
		return advisory.Grant{}, nil
	}
	if err == nil {
		err = c.judge(row, 1)
	}
	switch {
	case err != nil:
		return advisory.Grant{}, err
	case !row[0].Valid:
		return advisory.Grant{}, errNull
	case !row.isOne(0):
		return advisory.Grant{}, nil
	}
	fence, err := d.mint(c, l, r)
	if noReply, _ := storekit.IsNoReply(err); noReply { // the session had the lock
		err = &storekit.NoReply{Err: err}
	}
	return advisory.Grant{Granted: err == nil, Fence: fence}, err
}

// Await implements advisory.Dialect. The server notices the end of the connection within a second,
// or when it grants the lock.
func (d *dialect) Await(_ context.Context, c *conn, l advisory.Lock, r *driver.Request) (advisory.Grant, error) {
	if _, err := c.exec(setTimeout(waiterTimeout)); err != nil {
		return advisory.Grant{}, err
	}
	row, err := c.queryOneWithin(waitSlice+c.cfg.Limit(), take(l.Key, waitSlice))
	if err == nil {
		err = c.judge(row, 1)
	}
	if err != nil || !row.isOne(0) {
		return advisory.Grant{}, err
	}
	fence, err := d.mint(c, l, r)
	return advisory.Grant{Granted: err == nil, Fence: fence}, err
}

// EndWait implements advisory.Dialect.
func (d *dialect) EndWait(c, waiting *conn) error {
	_, err := c.exec(endWait(waiting.mark))
	return err
}

// mint returns a new fence for a lock that the session has. Without fences it returns 0.
func (d *dialect) mint(c *conn, l advisory.Lock, r *driver.Request) (uint64, error) {
	if d.cfg.NoFences {
		return 0, nil
	}
	fence, err := d.write(c, r.Holder, func(holder string) string {
		return d.sql.mint(l.Key, r.FenceAbove, r.Name, c.mark, holder)
	})
	if err == nil && fence == 0 {
		err = driver.ErrFencesUsedUp
	}
	return uint64(fence), err
}

// write runs a statement that writes a row with a holder into the table of fences. It returns the
// last inserted id.
func (d *dialect) write(c *conn, h driver.Holder, statement func(holder string) string) (id int64, err error) {
	holder, err := json.Marshal(h)
	if err != nil {
		return 0, err
	}
	text := statement(string(holder))
	err = advisory.WithTable(d, c, func() (err error) {
		id, err = c.exec(text)
		for range 3 { // after a deadlock, the server has undone the statement, and it can be sent again
			if !hasNumber(err, deadlock) {
				break
			}
			id, err = c.exec(text)
		}
		return err
	})
	return id, err
}

// Claim implements advisory.Dialect.
func (d *dialect) Claim(c *conn) error {
	_, err := c.exec(setTimeout(d.cfg.SessionTimeout()))
	return err
}

// Unlock implements advisory.Dialect.
func (d *dialect) Unlock(c *conn, l advisory.Lock, _ bool) (bool, error) {
	r, err := c.queryOne(unlock(l.Key))
	return err == nil && r.isOne(0), err
}

// Verify implements advisory.Dialect.
func (d *dialect) Verify(c *conn, l advisory.Lock) error { return c.verify(l.Key) }

// RaiseFence implements advisory.Dialect.
func (d *dialect) RaiseFence(c *conn, l advisory.Lock, h driver.Holder, fence uint64) error {
	_, err := d.write(c, h, func(holder string) string {
		return d.sql.raiseFence(l.Key, fence, l.Name, c.mark, holder)
	})
	return err
}

// Settle implements advisory.Dialect. It kills the session that has the mark of the lost
// connection. The number of the session would not be enough, because a newer session may have got
// the same number.
func (d *dialect) Settle(c, lost *conn, _ advisory.Lock) (bool, error) {
	r, err := c.queryOne(owner(lost.mark))
	if err != nil || !r[0].Valid {
		return err == nil, err
	}
	_, _ = c.exec(kill(r[0].String)) // the session may have ended meanwhile
	return false, nil
}

// LooksFree implements advisory.Dialect.
func (d *dialect) LooksFree(c *conn, l advisory.Lock, _ bool) (bool, error) {
	r, err := c.queryOne(isFree(l.Key))
	return err == nil && r.isOne(0), err
}

// Fence implements advisory.Table.
func (d *dialect) Fence(c *conn, key string) (fence uint64, found bool, err error) {
	rows, err := c.query(d.sql.fence(key))
	if len(rows) == 0 {
		return 0, false, err
	}
	return rows[0].number(0), true, nil
}

// VersionKey implements advisory.Table.
func (d *dialect) VersionKey() string { return versionRow }

// Lacks implements advisory.Table.
func (d *dialect) Lacks(err error) (table, rights bool) {
	return hasNumber(err, noTable), hasNumber(err, deniedTable, deniedDatabase, noDatabase)
}

// MakeTable implements advisory.Table.
func (d *dialect) MakeTable(c *conn) error {
	for _, sql := range d.sql.makeTable() {
		if _, err := c.exec(sql); err != nil {
			return err
		}
	}
	return nil
}

// SweepDue implements advisory.Table.
func (d *dialect) SweepDue(c *conn, every time.Duration) (bool, error) {
	at, err := c.exec(d.sql.dueSweep(every))
	return err == nil && at != 0, err
}

// Sweep implements advisory.Table.
func (d *dialect) Sweep(c *conn, after string, batch int, keep time.Duration) (removed int, last string, err error) {
	rows, err := c.query(d.sql.oldRows(after, batch, keep))
	if err != nil {
		return 0, "", err
	}
	var old []string
	for _, r := range rows {
		if last = r[0].String; r.isOne(1) {
			old = append(old, last)
		}
	}
	if len(rows) < batch {
		last = ""
	}
	if len(old) == 0 {
		return 0, last, nil
	}
	_, err = c.exec(d.sql.removeRows(old, keep))
	if err != nil {
		return 0, "", err
	}
	return len(old), last, nil
}
