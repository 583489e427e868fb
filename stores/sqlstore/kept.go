package sqlstore

import (
	"bytes"
	"context"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// A name that a transaction keeps (CheckTx, LockTx) may look free in the tables, because the rows
// are only locked. On PostgreSQL and MySQL, Inspect finds such a name: it tries to lock the row for a
// moment. List does not find it. docs/stuck.md says how to find the transaction.

const txLabel = "a transaction that checks or holds the lock"

// keptHold returns the hold of a transaction that keeps the name, or nil if there is none, or if it
// cannot be found out.
func (s *Store) keptHold(ctx context.Context, name string) []driver.Hold {
	if s.rows.sql.tryKept == "" {
		return nil
	}
	for try := range 4 { // a grant on MySQL and another Inspect lock the row too, for a moment
		if try > 0 && !dbms.Pause(ctx, try+2) {
			return nil
		}
		if kept, err := s.rows.isKept(ctx, name); !kept || err != nil {
			return nil
		}
	}
	if there, err := s.rows.hasGrant(ctx, name); !there || err != nil {
		return nil
	}
	return []driver.Hold{{Holder: driver.Holder{Label: txLabel}}}
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
