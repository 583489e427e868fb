package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/padlock-go/padlock/driver"
)

// A Granted lock is what CheckTx needs to know of a lock. *padlock.Lock is one.
type Granted interface {
	// Name returns the name that is locked.
	Name() string
	// Fence returns the fence of the grant.
	Fence() uint64
}

// CheckTx makes sure that nothing which tx writes is written after somebody else got the lock: it
// returns nil only if lock is held now, and keeps everybody else from getting its name until tx has
// ended. So a process that was paused before the commit does no harm, and nobody has to check a
// fence. Call it at the start of the transaction; under REPEATABLE READ and above, the transaction
// has to begin after Acquire.
//
// While tx is open, others who try the name get a *driver.HeldError. On PostgreSQL and MySQL,
// renewal, Release and Break do not wait for tx; on SQLite every write does, so keep tx shorter
// than a third of the TTL.
//
// The error is driver.ErrLost or driver.ErrExpired if the lock is not held any more, or another one
// if the database cannot tell: roll tx back then. lock must have been taken from this store, and
// must not be a shared one that was promoted meanwhile. tx must be of the same database.
func (s *Store) CheckTx(ctx context.Context, tx *sql.Tx, lock Granted) error {
	name, fence := lock.Name(), lock.Fence()
	if err := driver.CheckName(name, &s.promises); err != nil {
		return err
	}
	if fence == 0 {
		return fmt.Errorf("check in a transaction: %w", driver.ErrLost)
	}
	saw, err := s.pin(ctx, tx, name, s.rows.sql.tx.share)
	if errors.Is(err, errNoRow) {
		err = driver.ErrLost
	}
	if err != nil {
		return fmt.Errorf("check in a transaction: %w", err)
	}
	st, now, err := s.peekBeside(ctx, tx, name)
	if err != nil {
		return fmt.Errorf("check in a transaction: %w", failure(ctx, err, false))
	}
	if saw != 0 && saw != st.fence {
		return fmt.Errorf("check in a transaction: %w", errStale)
	}
	for i := range st.holds {
		h := &st.holds[i]
		if h.Fence != fence || h.Reserved {
			continue
		}
		if h.Until <= now {
			return fmt.Errorf("check in a transaction: %w", driver.ErrExpired)
		}
		return nil
	}
	return fmt.Errorf("check in a transaction: %w", driver.ErrLost)
}

// LockTx takes the lock on name until tx ends, without a lease and without a fence: to break it,
// an operator has to end the transaction, and then nothing of it is written. It never waits. A
// *driver.HeldError says that somebody else has the name, in a transaction or under a lease, or
// waits for it; driver.ErrAlreadyHeld, that this process does.
//
// While tx is open, others who try the name get a *driver.HeldError. Call it at the start of the
// transaction: under REPEATABLE READ and above, it fails if the transaction has read before and may
// have seen what an earlier holder changed since.
func (s *Store) LockTx(ctx context.Context, tx *sql.Tx, name string) error {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return err
	}
	if err := s.makeRowsFor(ctx, tx, name); err != nil {
		return fmt.Errorf("lock in a transaction: %w", failure(ctx, err, false))
	}
	_, err := s.pin(ctx, tx, name, s.rows.sql.tx.own)
	if err == nil && s.rows.dialect.numbers {
		_, err = s.pin(ctx, tx, name, s.rows.sql.tx.share)
	}
	if err == nil && s.rows.dialect.grants {
		_, err = tx.ExecContext(ctx, s.rows.sql.tx.write, []byte(name))
		err = s.stale(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	_, st, now, err := scan(tx.QueryRowContext(ctx, s.rows.sql.load, []byte(name)))
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("lock in a transaction: %w", errStale) // the row is younger than its snapshot
	}
	if err != nil {
		return fmt.Errorf("lock in a transaction: %w", failure(ctx, err, false))
	}
	if err := s.same(ctx, name, st); err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	st.trim(now)
	if !st.excluded("", false, now) && len(st.queue) == 0 {
		return nil
	}
	for _, h := range st.reports("", now) {
		if host, _ := os.Hostname(); h.PID == os.Getpid() && h.Host == host && !h.Cooling {
			return fmt.Errorf("lock in a transaction: %w", driver.ErrAlreadyHeld)
		}
	}
	return st.heldError("", now)
}

// peekBeside reads the state of a name after tx has locked the row of its last grant: with another
// connection, because under MySQL's SERIALIZABLE each row that tx reads is locked. SQLite's pool
// may have one connection only.
func (s *Store) peekBeside(ctx context.Context, tx *sql.Tx, name string) (*state, micros, error) {
	if s.rows.dialect.grants {
		return s.rows.peek(ctx, name)
	}
	_, st, now, err := scan(tx.QueryRowContext(ctx, s.rows.sql.load, []byte(name)))
	return st, now, err
}

var (
	errNoRow = errors.New("there is no row for the name")
	errStale = fmt.Errorf("%w: the transaction has read before the lock was free; begin a new one and call this first, or use READ COMMITTED", driver.ErrUnavailable)
)

// pin locks a row of the name for the transaction, in the way that text says. Where the engine can
// tell, it makes sure that the transaction sees that row as it is now. saw is the fence that the
// transaction sees, 0 if it is not known.
func (s *Store) pin(ctx context.Context, tx *sql.Tx, name, text string) (saw uint64, err error) {
	if text == "" { // SQLite: any write keeps all other writers out
		ok, err := changed(tx.ExecContext(ctx, s.rows.sql.tx.write, []byte(name)))
		if err == nil && !ok {
			return 0, errNoRow
		}
		return 0, s.stale(ctx, err)
	}
	type row struct {
		fence  uint64
		locked int64
	}
	var seen, is row
	if s.rows.sql.tx.plain != "" {
		err := tx.QueryRowContext(ctx, s.rows.sql.tx.plain, []byte(name)).Scan(&seen.fence, &seen.locked)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, failure(ctx, err, false)
		}
	}
	err = tx.QueryRowContext(ctx, text, []byte(name)).Scan(&is.fence, &is.locked)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, s.whyNoRow(ctx, name)
	case err != nil:
		return 0, s.stale(ctx, err)
	case s.rows.sql.tx.plain != "" && seen != is:
		return 0, errStale
	}
	if s.rows.dialect.numbers && text == s.rows.sql.tx.share {
		saw = is.fence
	}
	return saw, nil
}

// whyNoRow tells a row that another transaction has locked from one that is not there.
func (s *Store) whyNoRow(ctx context.Context, name string) error {
	switch there, err := s.rows.hasGrant(ctx, name); {
	case err != nil:
		return failure(ctx, err, false)
	case !there:
		return errNoRow
	}
	return (&state{}).lockedByTx()
}

// stale says what to do about a transaction that is too old for the lock.
func (s *Store) stale(ctx context.Context, err error) error {
	if err != nil && judge(err) == again {
		return fmt.Errorf("%w: %w", errStale, err)
	}
	return failure(ctx, err, false)
}

// same makes sure that the transaction sees the row of the lock as it is now. Above READ
// COMMITTED it sees the row as it was when it first read.
func (s *Store) same(ctx context.Context, name string, st *state) error {
	if !s.rows.dialect.grants {
		return nil
	}
	is, _, err := s.rows.peek(ctx, name)
	if err != nil {
		return failure(ctx, err, false)
	}
	if is.version != st.version {
		return errStale
	}
	return nil
}

// makeRowsFor makes the rows of a name before a transaction looks for them: MySQL would lock the
// place where a missing row belongs. They stay when the transaction is rolled back; only SQLite,
// which has one writer, has to make them in the transaction itself.
func (s *Store) makeRowsFor(ctx context.Context, tx *sql.Tx, name string) error {
	if !s.rows.dialect.grants {
		_, err := tx.ExecContext(ctx, s.rows.sql.ensure, []byte(name), []byte{})
		return err
	}
	there, err := s.rows.hasGrant(ctx, name)
	if there || err != nil {
		return err
	}
	return s.rows.makeRows(ctx, name)
}
