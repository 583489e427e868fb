package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A name that a transaction keeps (CheckTx, LockTx) may look free in the tables, because the rows
// are only locked. Inspect and List find such names for people who ask who has a lock:
//
//	            Inspect                       List
//	PostgreSQL  tries the row, asks for xmax  asks for xmax
//	MySQL       tries the row                 cannot find them
//	SQLite      cannot find them              cannot find them
//
// To try the row means to lock it for a moment. The xmax of a row of PostgreSQL is the transaction
// that has locked the row, unless several transactions have locked it.

// keptStatements find names that transactions keep.
type keptStatements struct {
	try string // reads the row of a name unless it is locked
	who string // PostgreSQL: the transactions that keep the names in a range
}

func newKeptStatements(d *dialect, t tables) (st keptStatements) {
	if d.grants {
		st.try = d.bind("SELECT fence FROM " + t.grants + " WHERE name = ? FOR UPDATE SKIP LOCKED")
	}
	if d == dialects[PostgreSQL] {
		// Such a transaction has a lock on the whole table too. If there is none, the table is not
		// read.
		st.who = d.bind("WITH x AS MATERIALIZED (SELECT transactionid, pid FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND pid <> pg_backend_pid()" +
			" AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowShareLock' AND relation = to_regclass('" + t.grants + "')))" +
			" SELECT g.name, x.pid, COALESCE(a.application_name, ''), COALESCE(host(a.client_addr), '')" +
			", COALESCE((date_part('epoch', clock_timestamp() - a.xact_start) * 1000000)::bigint, 0)" +
			" FROM x JOIN " + t.grants + " AS g ON g.xmax = x.transactionid LEFT JOIN pg_stat_activity AS a ON a.pid = x.pid" +
			" WHERE g.name >= ? AND g.name < ? ORDER BY g.name")
	}
	return st
}

const txLabel = "a transaction that checks or holds the lock"

// keptHold returns the hold of a transaction that keeps the name, or nil if there is none, or if it
// cannot be found out.
func (s *Store) keptHold(ctx context.Context, name string) []driver.Hold {
	if s.rows.sql.kept.try == "" {
		return nil
	}
	for try := range 4 { // a grant on MySQL and another Inspect lock the row too, for a moment
		if try > 0 && !s.retryPause(ctx, try+2) {
			return nil
		}
		if kept, err := s.rows.isKept(ctx, name); !kept || err != nil {
			return nil
		}
	}
	if there, err := s.rows.hasGrant(ctx, name); !there || err != nil {
		return nil
	}
	known, err := s.keptNames(ctx, []byte(name), append([]byte(name), 0))
	if err != nil || len(known) == 0 {
		return []driver.Hold{{Holder: driver.Holder{Label: txLabel}}}
	}
	return known[0].Holds
}

// keptNames returns the names from one to another that transactions of PostgreSQL keep. The name
// "to" is not included.
func (s *Store) keptNames(ctx context.Context, from, to []byte) (out []driver.State, err error) {
	if s.rows.sql.kept.who == "" {
		return nil, nil
	}
	rows, err := s.rows.db.QueryContext(ctx, s.rows.sql.kept.who, from, to)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name []byte
		var pid int
		var program, host string
		var age decide.Time
		if err := rows.Scan(&name, &pid, &program, &host, &age); err != nil {
			return nil, err
		}
		label := fmt.Sprintf("%s: process %d of PostgreSQL", txLabel, pid)
		if program != "" {
			label += ", program " + program
		}
		if host != "" {
			label += ", from " + host
		}
		h := driver.Hold{Holder: driver.Holder{Label: label}}
		if age > 0 {
			h.Since = time.Now().Add(-age.Sub(0))
		}
		out = append(out, driver.State{Name: string(name), Holds: []driver.Hold{h}})
	}
	return out, rows.Err()
}

// addKept adds the names that transactions keep to a list of states. Both are in the order of the
// names. A name that is in the list already has a holder or a waiter, which matters more.
func addKept(list, kept []driver.State) []driver.State {
	var out []driver.State
	for _, k := range kept {
		for len(list) > 0 && list[0].Name < k.Name {
			out, list = append(out, list[0]), list[1:]
		}
		switch {
		case len(list) == 0 || list[0].Name != k.Name:
			out = append(out, k)
		case len(list[0].Holds) == 0:
			list[0].Holds = k.Holds
		}
	}
	return append(out, list...)
}

// rangeOf returns the range of the names that begin with prefix. The name "to" is not included.
func rangeOf(prefix string) (from, to []byte) {
	to = []byte(prefix)
	for len(to) > 0 && to[len(to)-1] == 0xff {
		to = to[:len(to)-1]
	}
	if len(to) > 0 {
		to[len(to)-1]++
		return []byte(prefix), to
	}
	return []byte(prefix), bytes.Repeat([]byte{0xff}, driver.MaxName+1)
}
