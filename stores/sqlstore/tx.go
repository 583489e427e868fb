package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/padlock-go/padlock/driver"
)

// Granted is what CheckTx needs to know about a lock. *padlock.Lock implements it. The permit of a
// semaphore also has a method Slot; see driver.StoredName.
type Granted interface {
	// Name returns the name that is locked.
	Name() string
	// Fence returns the fence of the grant.
	Fence() uint64
}

// CheckTx protects a transaction from writing after its process has lost the lock. It returns nil
// if the lock is held now. From then until tx ends, nobody else gets the name, even if the lease
// ends before tx does. So a process that is paused before its commit does no harm, and the program
// need not check fences.
//
// Call CheckTx at the start of the transaction. If the isolation level is REPEATABLE READ or
// SERIALIZABLE, begin the transaction after Acquire.
//
// While tx is open, others who try the name get a *driver.HeldError. On PostgreSQL and MySQL,
// renewal, Release and Break do not wait for tx. On SQLite every write waits for it, so keep tx
// shorter than a third of the TTL.
//
// A rollback to an earlier savepoint ends the protection, and CheckTx has to be called again.
//
// The error is driver.ErrLost or driver.ErrExpired if the lock is not held any more, and another
// error if the database cannot tell. After any error, roll tx back. The lock must come from this
// store, and tx must be of the same database. A lock that was acquired as a shared lock must not
// have been promoted since then.
func (s *Store) CheckTx(ctx context.Context, tx *sql.Tx, lock Granted) error {
	name, fence := driver.StoredName(lock), lock.Fence()
	if err := driver.CheckName(name, &s.promises); err != nil {
		return err
	}
	if fence == 0 {
		return fmt.Errorf("check in a transaction: %w", driver.ErrLost)
	}
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("check in a transaction: %w", err)
	}
	defer done()
	saw, err := s.pinRow(ctx, tx, name, s.rows.sql.tx.share)
	if errors.Is(err, errNoRow) {
		err = driver.ErrLost
	}
	if err != nil {
		return fmt.Errorf("check in a transaction: %w", err)
	}
	st, now, err := s.peekBesideTx(ctx, tx, name)
	if err != nil {
		return fmt.Errorf("check in a transaction: %w", failure(ctx, err, false))
	}
	if saw != 0 && saw != st.fence {
		return fmt.Errorf("check in a transaction: %w", errStale)
	}
	for i := range st.holds {
		h := &st.holds[i]
		// An exclusive reservation counts as a hold, because its waiter may use the name before it
		// claims the reservation.
		if h.Fence != fence || h.Reserved && h.Shared {
			continue
		}
		if h.Until <= now {
			return fmt.Errorf("check in a transaction: %w", driver.ErrExpired)
		}
		return nil
	}
	return fmt.Errorf("check in a transaction: %w", driver.ErrLost)
}

// LockTx takes the lock on name until tx ends. Such a lock has no lease and no fence. To break it,
// an operator has to end the transaction, and the database then discards what the transaction has
// written. LockTx never waits. It returns driver.ErrAlreadyHeld if this process has the name. If
// somebody else has the name or waits for it, LockTx returns a *driver.HeldError.
//
// While tx is open, others who try the name get a *driver.HeldError. A rollback to an earlier
// savepoint ends the lock. Call LockTx at the start of the transaction. With the isolation level
// REPEATABLE READ or SERIALIZABLE, tx sees the data as they were at its first read. Another process
// may have held the lock after that read, and changed data that tx does not see. LockTx then fails.
func (s *Store) LockTx(ctx context.Context, tx *sql.Tx, name string) error {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return err
	}
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	defer done()
	if err := s.makeRowsFor(ctx, tx, name); err != nil {
		return fmt.Errorf("lock in a transaction: %w", failure(ctx, err, false))
	}
	_, err = s.pinRow(ctx, tx, name, s.rows.sql.tx.own)
	if err == nil && s.rows.dialect.numbers {
		_, err = s.pinRow(ctx, tx, name, s.rows.sql.tx.share)
	}
	if err == nil && s.rows.dialect.grants {
		_, err = tx.ExecContext(ctx, s.rows.sql.tx.write, []byte(name))
		err = s.staleError(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	st, now, err := s.loadCurrent(ctx, tx, name)
	if err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	st.trim(now)
	if !st.isExcluded("", false, now) && len(st.queue) == 0 {
		return nil
	}
	for _, h := range st.holdsExcept("", now) {
		if host, _ := os.Hostname(); h.PID == os.Getpid() && h.Host == host && !h.Cooling {
			return fmt.Errorf("lock in a transaction: %w", driver.ErrAlreadyHeld)
		}
	}
	return st.heldError("", now)
}

// peekBesideTx reads the state of a name after tx has locked a row of the name. On PostgreSQL and
// MySQL it reads on another connection, because a SERIALIZABLE transaction of MySQL locks every row
// that it reads. On SQLite it reads in tx, because the pool may have only one connection.
func (s *Store) peekBesideTx(ctx context.Context, tx *sql.Tx, name string) (*state, micros, error) {
	if s.rows.dialect.grants {
		return s.rows.peekState(ctx, name)
	}
	_, st, now, err := scan(tx.QueryRowContext(ctx, s.rows.sql.load, []byte(name)))
	return st, now, err
}

var (
	errNoRow = errors.New("there is no row for the name")
	errStale = fmt.Errorf("%w: the transaction has read before the lock was free; begin a new one and call this first, or use READ COMMITTED", driver.ErrUnavailable)
)

// pinRow locks a row of the name until the transaction ends, with the statement lockText. If pinRow
// notices that the transaction sees an older version of the row, it returns errStale.
//
// For CheckTx on PostgreSQL, pinRow cannot notice an older version. So it returns the fence in the
// row as sawFence, and CheckTx compares sawFence with the current fence. Otherwise sawFence is 0.
func (s *Store) pinRow(ctx context.Context, tx *sql.Tx, name, lockText string) (sawFence uint64, err error) {
	if lockText == "" { // on SQLite, any write keeps all other writers out
		ok, err := changed(tx.ExecContext(ctx, s.rows.sql.tx.write, []byte(name)))
		if err == nil && !ok {
			return 0, errNoRow
		}
		return 0, s.staleError(ctx, err)
	}
	type row struct {
		fence  uint64
		locked int64
	}
	var seen, is row
	err = tx.QueryRowContext(ctx, lockText, []byte(name)).Scan(&is.fence, &is.locked)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, s.whyNoRow(ctx, name)
	case err != nil:
		return 0, s.staleError(ctx, err)
	}
	// The row is locked. If a plain SELECT finds other values, the snapshot is old.
	if s.rows.sql.tx.plain != "" {
		err := tx.QueryRowContext(ctx, s.rows.sql.tx.plain, []byte(name)).Scan(&seen.fence, &seen.locked)
		switch {
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return 0, failure(ctx, err, false)
		case seen != is:
			return 0, errStale
		}
	}
	if s.rows.dialect.numbers && lockText == s.rows.sql.tx.share {
		sawFence = is.fence
	}
	return sawFence, nil
}

// whyNoRow is called if the statement that locks a row has found none. It finds out whether another
// transaction has locked the row or there is no row.
func (s *Store) whyNoRow(ctx context.Context, name string) error {
	switch there, err := s.rows.hasGrant(ctx, name); {
	case err != nil:
		return failure(ctx, err, false)
	case !there:
		return errNoRow
	}
	return (&state{}).lockedByTx()
}

// staleError returns the error of a statement that locks a row for a transaction. The database
// refuses such a statement, for instance, if the row has changed since the transaction took its
// snapshot. staleError then returns errStale, which tells the caller what to do.
func (s *Store) staleError(ctx context.Context, err error) error {
	if err != nil && judge(err) == again {
		return fmt.Errorf("%w: %w", errStale, err)
	}
	return failure(ctx, err, false)
}

// loadCurrent reads the state of a name in the transaction. It returns errStale if the transaction
// does not see the current version of the lock's row.
//
// To find out, loadCurrent compares the version with the one that another connection sees. At READ
// COMMITTED, they may differ because the holder has just written to the row. The transaction then
// sees another version at the next read. A REPEATABLE READ or SERIALIZABLE transaction sees the
// same old version at each read.
func (s *Store) loadCurrent(ctx context.Context, tx *sql.Tx, name string) (*state, micros, error) {
	for last := int64(-1); ; {
		_, st, now, err := scan(tx.QueryRowContext(ctx, s.rows.sql.load, []byte(name)))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil, 0, errStale
		case err != nil:
			return nil, 0, failure(ctx, err, false)
		case !s.rows.dialect.grants:
			return st, now, nil
		}
		is, _, err := s.rows.peekState(ctx, name)
		switch {
		case err != nil:
			return nil, 0, failure(ctx, err, false)
		case is.version == st.version:
			return st, now, nil
		case st.version == last:
			return nil, 0, errStale
		}
		last = st.version
	}
}

// makeRowsFor makes the rows of a name before a transaction locks them. On MySQL, a transaction
// that looks for a missing row locks the gap where the row would be, and nobody else can insert it.
// The new rows stay even if the transaction is rolled back. On SQLite, which has only one writer,
// the transaction itself makes the row.
func (s *Store) makeRowsFor(ctx context.Context, tx *sql.Tx, name string) error {
	if !s.rows.dialect.grants {
		_, err := tx.ExecContext(ctx, s.rows.sql.ensure, []byte(name), []byte{})
		return err
	}
	there, err := s.rows.hasGrant(ctx, name)
	if judge(err) == noTable {
		err = s.rows.make(ctx)
	}
	if there || err != nil {
		return err
	}
	return s.rows.makeRows(ctx, name)
}

// lockedByTx returns the error for an attempt to get the name while a transaction keeps it.
func (s *state) lockedByTx() error {
	return &driver.HeldError{Holds: []driver.Hold{{Holder: driver.Holder{Label: "a transaction that checks or holds the lock"}}}, Waiters: len(s.queue)}
}
