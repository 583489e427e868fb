package pgadvisory

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A dialect says to PostgreSQL what package advisory wants.
type dialect struct {
	dialer
	sql statements
}

var _ interface {
	advisory.Dialect[*conn]
	advisory.Sharer[*conn]
} = (*dialect)(nil)

// Key implements advisory.Dialect. It is the number of the lock.
func (d *dialect) Key(name string) string { return string(number(d.cfg.keys.lockNumber(name))) }

// Place implements advisory.Dialect. Some servers do not tell every user their identifier.
func (d *dialect) Place() (known string, way any) {
	known, _ = d.system.Load().(string)
	return known, [2]any{d.server.Host, d.server.Port}
}

func (d *dialect) intent(l advisory.Lock) []byte { return number(d.cfg.keys.intent(l.Name)) }

// Try implements advisory.Dialect.
func (d *dialect) Try(c *conn, l advisory.Lock, r *driver.Request) (advisory.Grant, error) {
	params := [][]byte{[]byte(l.Key)}
	if !d.cfg.NoFences {
		params = append(params, number(int64(r.FenceAbove)), bytea(r.Name))
	}
	if r.Shared {
		params = append(params, d.intent(l))
	}
	var rows [][][]byte
	err := advisory.WithTable(d, c, func() (err error) {
		rows, err = c.exec(&d.sql.take[index(r.Shared)], params...)
		return err
	})
	switch {
	case err != nil || len(rows) == 0 || string(rows[0][0]) != "t":
		return advisory.Grant{}, err
	case d.cfg.NoFences:
		return advisory.Grant{Granted: true}, nil
	case rows[0][1] == nil || parse(rows[0][1]) >= driver.MaxFence:
		return advisory.Grant{}, driver.ErrFencesUsedUp
	}
	return advisory.Grant{Granted: true, Fence: parse(rows[0][1])}, nil
}

// Await implements advisory.Dialect. A reader that gets the lock gives it up if another reader
// wants to be promoted.
func (d *dialect) Await(ctx context.Context, c *conn, l advisory.Lock, r *driver.Request) (advisory.Grant, error) {
	granted, err := d.line(l).await(ctx, c, r.Shared)
	if err != nil || !granted {
		return advisory.Grant{}, err
	}
	if r.Shared {
		var rows [][][]byte
		rows, err = c.exec(&noIntent, d.intent(l))
		if err == nil && string(rows[0][0]) != "t" {
			return advisory.Grant{}, nil
		}
	}
	if err != nil || d.cfg.NoFences {
		return advisory.Grant{Granted: err == nil}, err
	}
	fence, err := d.mint(c, l, r.Shared, r)
	return advisory.Grant{Granted: err == nil, Fence: fence}, err
}

// mint returns a new fence for a lock that the session has.
func (d *dialect) mint(c *conn, l advisory.Lock, shared bool, r *driver.Request) (uint64, error) {
	var rows [][][]byte
	err := advisory.WithTable(d, c, func() (err error) {
		rows, err = c.exec(&d.sql.mint[index(shared)], []byte(l.Key), number(int64(r.FenceAbove)), bytea(r.Name))
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case len(rows) == 0:
		return 0, driver.ErrFencesUsedUp
	}
	return parse(rows[0][0]), nil
}

// Claim implements advisory.Dialect.
func (d *dialect) Claim(c *conn) error {
	_, err := c.exec(&claimed, []byte(ms(d.cfg.SessionTimeout())))
	return err
}

// Unlock implements advisory.Dialect.
func (d *dialect) Unlock(c *conn, l advisory.Lock, shared bool) (bool, error) {
	return c.isTrue(&unlock[index(shared)], []byte(l.Key))
}

// Verify implements advisory.Dialect.
func (d *dialect) Verify(c *conn, l advisory.Lock) error {
	if l == (advisory.Lock{}) {
		_, err := c.exec(&ping)
		return err
	}
	has, err := c.isTrue(&hasLock, []byte(l.Key))
	if err == nil && !has {
		err = errors.New("the session did not have the lock")
		c.Lose(err)
	}
	return err
}

// RaiseFence implements advisory.Dialect.
func (d *dialect) RaiseFence(c *conn, l advisory.Lock, _ driver.Holder, fence uint64) error {
	return advisory.WithTable(d, c, func() error {
		_, err := c.exec(&d.sql.raise, []byte(l.Key), number(int64(fence)), bytea(l.Name))
		return err
	})
}

// Settle implements advisory.Dialect. Behind a pooler the session goes on after the connection of
// the client has ended, and may serve another client, so Settle only looks at it. Without a pooler
// it ends the session.
func (d *dialect) Settle(c, lost *conn, l advisory.Lock) (bool, error) {
	pid := number(int64(lost.pid))
	if lost.pooled {
		rows, err := c.exec(&stillLocks, []byte(l.Key), pid)
		return err == nil && parse(rows[0][0]) == 0, err
	}
	if _, err := c.exec(&endBackend, pid, []byte(lost.start)); err != nil {
		return false, err
	}
	rows, err := c.exec(&backendLives, pid, []byte(lost.start))
	return err == nil && parse(rows[0][0]) == 0, err
}

// Holders implements advisory.Dialect. The server knows only the process and the host of a holder
// that uses padlock.
func (d *dialect) Holders(c *conn, l advisory.Lock) (holds []driver.Hold, fence uint64, err error) {
	rows, err := c.exec(&holders, []byte(l.Key))
	for _, row := range rows {
		holds = append(holds, holder(row))
	}
	if err != nil || d.cfg.NoFences {
		return holds, 0, err
	}
	fence, _, err = d.Fence(c, l.Key)
	return holds, min(fence, driver.MaxFence-1), err // maxFence says that no fence is left
}

// LooksFree implements advisory.Dialect.
func (d *dialect) LooksFree(c *conn, l advisory.Lock, shared bool) (bool, error) {
	return c.isTrue(&looksFree[index(shared)], []byte(l.Key))
}

// Fence implements advisory.Table.
func (d *dialect) Fence(c *conn, key string) (fence uint64, found bool, err error) {
	rows, err := c.exec(&d.sql.fence, []byte(key))
	if len(rows) == 0 {
		return 0, false, err
	}
	return parse(rows[0][0]), true, nil
}

// VersionKey implements advisory.Table.
func (d *dialect) VersionKey() string { return string(number(versionKey)) }

// Lacks implements advisory.Table.
func (d *dialect) Lacks(err error) (table, rights bool) {
	return hasCode(err, undefinedTable), hasCode(err, notPrivileged)
}

// MakeTable implements advisory.Table.
func (d *dialect) MakeTable(c *conn) error {
	for _, sql := range d.sql.makeTable {
		_, err := c.exec(&statement{"padlock_make" + sql[:6], sql})
		if err != nil && !hasCode(err, uniqueViolation, duplicateTable) { // another process makes it too
			return err
		}
	}
	return nil
}

// SweepDue implements advisory.Table.
func (d *dialect) SweepDue(c *conn, every time.Duration) (bool, error) {
	rows, err := c.exec(&d.sql.sweepDue, number(sweepKey), number(every.Microseconds()))
	return len(rows) == 1, err
}

// Sweep implements advisory.Table.
func (d *dialect) Sweep(c *conn, after string, batch int, keep time.Duration) (removed int, last string, err error) {
	from := []byte(after)
	if after == "" {
		from = number(math.MinInt64)
	}
	rows, err := c.exec(&d.sql.sweep, from, number(keep.Microseconds()), number(versionKey), number(int64(batch)))
	if err != nil {
		return 0, "", err
	}
	if parse(rows[0][1]) == uint64(batch) {
		last = string(rows[0][2])
	}
	return int(parse(rows[0][0])), last, nil
}
