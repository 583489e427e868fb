package mysqladvisory

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// List implements driver.Admin. It reads the names from the table of fences, which has all names
// that padlock has taken.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	return advisory.List(ctx, s.kit, func(c *conn) ([]driver.State, error) {
		rows, err := c.query(s.dialect.sql.holdersOf(prefix))
		var states []driver.State
		for _, r := range rows {
			hold, _ := holdOf(c, r)
			states = append(states, driver.State{Name: r[5].String, Waiters: -1, Fence: r.number(1), Holds: []driver.Hold{hold}})
		}
		return states, err
	})
}

// recordPause is how long Holders waits before it reads a row again. A holder writes its row only
// after the grant, so Holders may first find the row of an earlier holder.
const recordPause = 3 * time.Millisecond

// Holders implements advisory.Dialect. The holder of a name is read from the table of fences.
// Without that table, only the host of the session is known, and only if the user may see the
// session.
func (d *dialect) Holders(c *conn, l advisory.Lock) ([]driver.Hold, uint64, error) {
	if d.cfg.NoFences {
		r, err := c.queryOne(owner(l.Key))
		if err != nil || !r[0].Valid {
			return nil, 0, err
		}
		return []driver.Hold{session(c, r[0].String)}, 0, nil
	}
	for again := false; ; again = true {
		rows, err := c.query(d.sql.holder(l.Key))
		if err != nil || len(rows) != 1 {
			return nil, 0, err
		}
		fence := rows[0].number(1)
		if !rows[0][0].Valid {
			return nil, fence, nil
		}
		hold, current := holdOf(c, rows[0])
		if current || again {
			return []driver.Hold{hold}, fence, nil
		}
		time.Sleep(recordPause)
	}
}

// holdOf returns the hold that r describes. The first column is the number of the session that has
// the lock. The next columns are holderColumns, which come from the row that the last holder wrote.
// If another session wrote that row, it does not describe the present holder. Then holdOf returns
// false, and the hold contains only what the server knows about the session.
func holdOf(c *conn, r row) (hold driver.Hold, current bool) {
	if r[0] != r[4] {
		hold = session(c, r[0].String)
		hold.Foreign = true
		return hold, false
	}
	var holder driver.Holder
	_ = json.Unmarshal([]byte(r[2].String), &holder) // a holder that cannot be read stays unknown
	return storekit.HoldOf(holder, false, time.Now().Add(-time.Duration(r.number(3))*time.Microsecond)), true
}

// session describes a session. Its host is known if the user may see the session.
func session(c *conn, id string) driver.Hold {
	hold := driver.Hold{Holder: driver.Holder{Label: "session " + id + " of MySQL"}}
	if rows, err := c.query(hostOf(id)); err == nil && len(rows) == 1 {
		hold.Host = rows[0][0].String
		if host, _, err := net.SplitHostPort(hold.Host); err == nil {
			hold.Host = host
		}
	}
	return hold
}
