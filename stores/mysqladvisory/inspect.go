package mysqladvisory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/calls"
)

// Inspect implements driver.Inspector. The holder of a name is read from the table of fences.
// Without that table, only the host of the session is known, and only if the user may see the
// session.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return driver.State{}, err
	}
	return calls.Do(ctx, &s.calls, func() (driver.State, error) {
		l, err := s.prepare()
		if err != nil {
			return driver.State{}, err
		}
		c, err := s.pool.anyConn()
		if err != nil {
			return driver.State{}, err
		}
		st := driver.State{Name: name, Waiters: -1}
		var hold *driver.Hold
		hold, st.Fence, err = s.lookUp(c, l, l.keys.lockName(name))
		if hold != nil {
			st.Holds = []driver.Hold{*hold}
		}
		return st, failure(err)
	})
}

// List implements driver.Lister. It reads the names from the table of fences, which has all names
// that padlock has taken.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	return calls.Do(ctx, &s.calls, func() ([]driver.State, error) {
		if s.cfg.noFences {
			return nil, fmt.Errorf("%w: the server knows hashes only, and without fences (fences=no) there is no table of names", errors.ErrUnsupported)
		}
		l, err := s.prepare()
		if err != nil {
			return nil, err
		}
		c, err := s.pool.anyConn()
		if err != nil {
			return nil, err
		}
		rows, err := c.query(l.sql.holdersOf(prefix))
		if err != nil {
			return nil, failure(err)
		}
		var states []driver.State
		for _, r := range rows {
			name := r[5].String
			if l.keys.lockName(name) != r[6].String { // of another namespace
				continue
			}
			hold, _ := s.read(c, r)
			states = append(states, driver.State{Name: name, Waiters: -1, Fence: r.number(1), Holds: []driver.Hold{hold}})
		}
		return states, nil
	})
}

// heldBy returns the error that names the holder of a lock.
func (s *Store) heldBy(c *conn, l *layout, key string) error {
	held := &driver.HeldError{Waiters: -1}
	if hold, _, _ := s.lookUp(c, l, key); hold != nil { // the error is right without the holder
		held.Holds = []driver.Hold{*hold}
	}
	return held
}

// recordPause is how long lookUp waits before it reads a row again. A holder writes its row only
// after the grant, so lookUp may first find the row of an earlier holder.
const recordPause = 3 * time.Millisecond

// lookUp asks the server for the holder and the fence of a lock. If nobody holds the lock, the
// holder is nil.
func (s *Store) lookUp(c *conn, l *layout, key string) (*driver.Hold, uint64, error) {
	if s.cfg.noFences {
		r, err := c.queryOne(owner(key))
		if err != nil || !r[0].Valid {
			return nil, 0, err
		}
		hold := s.session(c, r[0].String)
		return &hold, 0, nil
	}
	for again := false; ; again = true {
		rows, err := c.query(l.sql.holder(key))
		if err != nil || len(rows) != 1 || !rows[0][0].Valid {
			var fence uint64
			if len(rows) == 1 {
				fence = rows[0].number(1)
			}
			return nil, fence, err
		}
		hold, current := s.read(c, rows[0])
		if current || again {
			return &hold, rows[0].number(1), nil
		}
		time.Sleep(recordPause)
	}
}

// read returns the hold that r describes. The first column is the number of the session that has
// the lock. The next columns are holderColumns, which come from the row that the last holder wrote.
// If another session wrote that row, it does not describe the present holder. Then read returns
// false, and the hold contains only what the server knows about the session.
func (s *Store) read(c *conn, r row) (hold driver.Hold, current bool) {
	if r[0] != r[4] {
		hold = s.session(c, r[0].String)
		hold.Foreign = s.cfg.symfony // in padlock's own layout, no other program takes these locks
		return hold, false
	}
	_ = json.Unmarshal([]byte(r[2].String), &hold.Holder) // a holder that cannot be read stays unknown
	hold.Since = time.Now().Add(-time.Duration(r.number(3)) * time.Microsecond)
	if hold.Plan > 0 {
		hold.PlannedEnd = hold.Since.Add(hold.Plan)
	}
	return hold, true
}

// session describes a session. Its host is known if the user may see the session.
func (s *Store) session(c *conn, id string) driver.Hold {
	hold := driver.Hold{Holder: driver.Holder{Label: "session " + id + " of MySQL"}}
	if rows, err := c.query(hostOf(id)); err == nil && len(rows) == 1 {
		hold.Host = rows[0][0].String
		if host, _, err := net.SplitHostPort(hold.Host); err == nil {
			hold.Host = host
		}
	}
	return hold
}
