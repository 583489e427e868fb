package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// txStatements are the statements that run in the caller's transactions, on a row of one name. See
// statements.go for the rows that they lock.
type txStatements struct {
	share string // locks the row, so that nobody gets the name until the transaction ends
	own   string // locks the row for this transaction alone
	plain string // reads the row as the transaction sees it
	write string // makes a new version of the row
	load  string // SQLite: reads the state after it was locked
	id    string // reads the id of the tables that the transaction sees, and of their database
	open  string // MySQL and SQLite: tells whether a transaction is open; see txopen.go
	mark  string // PostgreSQL: leaves a mark in the transaction; see txmark.go
	marks string // PostgreSQL: reads the marks
}

func newTxStatements(d *dialect, t tables) txStatements {
	b := d.bind
	id := "SELECT " + d.home(t) + " FROM " + t.meta + " WHERE setting = 'id'"
	row := " FROM " + t.grants + " WHERE name = ?"
	state := "SELECT (" + id + "), " + columns + ", " + d.now
	st := txStatements{
		own:   b("SELECT fence, locked" + row + " FOR UPDATE SKIP LOCKED"),
		plain: b("SELECT fence, locked, (" + id + ")" + row),
		write: b("UPDATE " + t.grants + " SET locked = locked + 1 WHERE name = ?"),
		id:    id,
	}
	switch d {
	case dialects[PostgreSQL]:
		// The grant row is locked first, then the lock row, and then the clock is read.
		pin := func(how string) string {
			return b("WITH g AS MATERIALIZED (SELECT name" + row + how + " SKIP LOCKED)" +
				", p AS MATERIALIZED (SELECT * FROM " + t.locks + " WHERE name = (SELECT name FROM g) FOR KEY SHARE) " +
				strings.Replace(state, "SELECT ", "SELECT current_setting('transaction_isolation') IN ('repeatable read', 'serializable'), ", 1) + " FROM p")
		}
		st.share, st.own = pin(" FOR KEY SHARE"), pin(" FOR UPDATE")
		st.marks = "SELECT COALESCE(current_setting('padlock.marks', true), '')"
		st.mark = "SELECT set_config('padlock.marks', (" + st.marks + ") || $1::text, true)"
	case dialects[MySQL]:
		st.share = "SELECT fence, locked" + row + " " + d.share + " /*M!100600 SKIP LOCKED */" // MySQL 8 waits for the row
		st.open = "SET TRANSACTION READ WRITE"
	case dialects[SQLite]:
		st.write = "UPDATE " + t.locks + " SET fence = fence WHERE name = ?"
		st.load = state + " FROM " + t.locks + " WHERE name = ?"
		st.open = "BEGIN"
	}
	return st
}

var (
	errNoRow = errors.New("there is no row for the name")
	errStale = fmt.Errorf("%w: the transaction has read before the lock was free; call this first in the new one, or use READ COMMITTED", ErrTx)

	// errSkipped means that a statement has locked no row; see whyNoRow.
	errSkipped = errors.New("no row was locked")

	// errPinned means that another transaction has locked the row.
	errPinned = errors.New("another transaction has locked the row")
)

// pinShared keeps everybody else from getting the name until the transaction ends, and returns the
// state of the name. Several transactions may do so at the same time. If another transaction has
// called pinAlone, pinShared returns errPinned. If the transaction works on an old snapshot, it
// returns errStale.
func (s *Store) pinShared(ctx context.Context, tx Tx, name string) (st *state, now decide.Time, err error) {
	switch s.engine {
	case PostgreSQL:
		st, now, err = s.pinBoth(ctx, tx, name, s.rows.sql.tx.share)
	case MySQL:
		if err = s.pinGrant(ctx, tx, name, s.rows.sql.tx.share); err == nil {
			// On another connection, because a SERIALIZABLE transaction would lock the row of the
			// lock too.
			st, now, err = s.rows.peekState(ctx, name)
			err = dbms.Failure(ctx, err, false)
		}
	default:
		st, now, err = s.pinFile(ctx, tx, name)
	}
	if err == errSkipped {
		err = s.whyNoRow(ctx, tx, name)
	}
	if errors.Is(err, errNoRow) {
		return &state{}, 0, nil
	}
	return st, now, err
}

// pinAlone is like pinShared, and also keeps other transactions from getting the name. If it has
// locked nothing, it returns errSkipped, and has read nothing in the transaction: a read fixes what
// the transaction sees.
func (s *Store) pinAlone(ctx context.Context, tx Tx, name string) (st *state, now decide.Time, err error) {
	if s.engine == PostgreSQL {
		st, now, err = s.pinBoth(ctx, tx, name, s.rows.sql.tx.own)
	} else {
		err = s.pinGrant(ctx, tx, name, s.rows.sql.tx.own)
	}
	if err != nil {
		return nil, 0, err
	}
	if _, err := tx.Exec(ctx, s.rows.sql.tx.write, []byte(name)); err != nil {
		return nil, 0, s.staleError(ctx, err)
	}
	if s.engine == MySQL {
		if _, st, now, err = scan(tx.QueryRow(ctx, s.rows.sql.load, []byte(name))); errors.Is(err, sql.ErrNoRows) {
			return nil, 0, errStale
		}
	}
	return st, now, dbms.Failure(ctx, err, false)
}

// pinBoth locks the two rows of a name on PostgreSQL and returns the present state in them. Above
// READ COMMITTED the transaction sees the state of its snapshot: a Release, a Break or a renewal
// since then does not make the statement fail. So pinBoth looks on a connection of the store.
func (s *Store) pinBoth(ctx context.Context, tx Tx, name, lockText string) (*state, decide.Time, error) {
	var id sql.NullString
	var snapshot bool
	_, st, now, err := scan(tx.QueryRow(ctx, lockText, []byte(name)), &snapshot, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, 0, errSkipped
	case err != nil:
		return nil, 0, s.staleError(ctx, err)
	}
	if err = s.checkID(ctx, id); err == nil && snapshot {
		err = s.reread(ctx, func() error {
			st, now, err = s.rows.peekState(ctx, name)
			return err
		})
		err = dbms.Failure(ctx, err, false)
	}
	return st, now, err
}

// pinFile locks the file of SQLite and returns the state of the name.
func (s *Store) pinFile(ctx context.Context, tx Tx, name string) (*state, decide.Time, error) {
	n, err := tx.Exec(ctx, s.rows.sql.tx.write, []byte(name))
	if err != nil {
		return nil, 0, s.staleError(ctx, err)
	}
	if n == 0 {
		return nil, 0, cmp.Or(s.checkTxID(ctx, tx), errNoRow)
	}
	var id sql.NullString
	_, st, now, err := scan(tx.QueryRow(ctx, s.rows.sql.tx.load, []byte(name)), &id)
	if err != nil {
		return nil, 0, dbms.Failure(ctx, err, false)
	}
	return st, now, cmp.Or(s.checkID(ctx, id), s.checkOpen(ctx, tx))
}

// pinGrant locks the row of the last grant on MySQL. It returns errStale if the transaction sees an
// older version of that row.
func (s *Store) pinGrant(ctx context.Context, tx Tx, name, lockText string) error {
	type row struct {
		fence  uint64
		locked int64
	}
	var seen, is row
	var id sql.NullString
	err := tx.QueryRow(ctx, lockText, []byte(name)).Scan(&is.fence, &is.locked)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errSkipped
	case err != nil:
		return s.staleError(ctx, err)
	}
	// The row is locked. If a plain SELECT finds other values, the snapshot is old.
	err = tx.QueryRow(ctx, s.rows.sql.tx.plain, []byte(name)).Scan(&seen.fence, &seen.locked, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errStale
	case err != nil:
		return dbms.Failure(ctx, err, false)
	}
	if err := s.checkID(ctx, id); err != nil {
		return err
	}
	if seen != is {
		return errStale
	}
	return s.checkOpen(ctx, tx)
}

// whyNoRow is called if the statement that locks rows of a name has found none. Another transaction
// has locked them, or this transaction does not see them, or a row is missing. On PostgreSQL, the
// row of the last grant may be missing although somebody has the name; then whyNoRow makes it.
func (s *Store) whyNoRow(ctx context.Context, tx Tx, name string) error {
	if err := s.checkTxID(ctx, tx); err != nil {
		return err
	}
	st, _, both, err := s.rows.peekBoth(ctx, name)
	if err == nil && !both {
		if s.engine == MySQL || st.version == 0 {
			return errNoRow
		}
		err = s.rows.makeRows(ctx, name)
	}
	if err == nil && s.engine == PostgreSQL {
		var fence, locked int64
		var id sql.NullString
		err = tx.QueryRow(ctx, s.rows.sql.tx.plain, []byte(name)).Scan(&fence, &locked, &id)
		if errors.Is(err, sql.ErrNoRows) {
			return errStale
		}
	}
	if err != nil {
		return dbms.Failure(ctx, err, false)
	}
	return errPinned
}

// staleError returns the error of a statement that locks a row for a transaction. The database
// refuses such a statement, for instance, if the row has changed since the transaction took its
// snapshot. staleError then returns errStale, which tells the caller what to do.
func (s *Store) staleError(ctx context.Context, err error) error {
	if err != nil && dbms.Judge(err) == dbms.Again {
		return fmt.Errorf("%w: %w", errStale, err)
	}
	return dbms.Failure(ctx, err, false)
}

// peekForTx reads the state of a name on a connection of the store, before a transaction locks its
// rows. If rows are missing, it makes them. On MySQL, a transaction that looks for a missing row
// locks the gap where the row would be, and nobody else can insert it. The new rows stay even if
// the transaction is rolled back.
func (s *Store) peekForTx(ctx context.Context, name string) (*state, decide.Time, error) {
	for range 3 {
		st, now, both, err := s.rows.peekBoth(ctx, name)
		switch {
		case dbms.Judge(err) == dbms.NoTable:
			err = s.rows.make(ctx)
		case err == nil && both:
			return st, now, nil
		case err == nil:
			err = s.rows.makeRows(ctx, name)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, errRemoved
}
