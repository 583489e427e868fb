package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Granted is what CheckTx needs to know about a lock. *padlock.Lock and padlock.Grant implement it.
// The permit of a semaphore also has a method Slot; see storekit.StoredName. If it has a method
// Err() error, as a padlock.Grant has, CheckTx returns that error and asks nothing.
type Granted interface {
	// Name returns the name that is locked.
	Name() string
	// Fence returns the fence of the grant.
	Fence() uint64
}

// CheckTx protects a transaction from writing after its process has lost the lock. It returns nil
// if the lock is held now. From then until tx ends, nobody else gets the name, even if the lease
// ends before tx does. So a process that is paused before its commit does no harm, and the program
// need not check fences. For several names that AcquireAll took, call it with each lock: Locks.Lock
// returns them.
//
// tx is a *sql.Tx, or a [Tx] such as package drivers/postgres makes of a pgx.Tx; anything else is
// driver.ErrInvalid. A transaction that cannot be used is [ErrTx]. Call CheckTx at the start of the transaction. If the isolation level is
// REPEATABLE READ or SERIALIZABLE, begin the transaction after Acquire.
//
// While tx is open, others who try the name get a *driver.HeldError, and so does Demote of an
// exclusive lock. If the lock is shared, other readers get in, and no writer does. On PostgreSQL
// and MySQL, renewal, Release and Break do not wait for tx. On SQLite every write waits for it, so
// keep tx shorter than a third of the TTL.
//
// A rollback to an earlier savepoint ends the protection, and CheckTx has to be called again. If
// the database ends tx itself, the protection ends too. ConfirmTx notices both. On MySQL and SQLite
// CheckTx and LockTx set savepoints, whose names begin with padlock_.
//
// The error is driver.ErrLost or driver.ErrExpired if the lock is not held any more, and another
// error if the database cannot tell. After any error, roll tx back. The lock must come from this
// store, and tx must be of the same database. A lock that was acquired as a shared lock must not
// have been promoted since then.
func (s *Store) CheckTx(ctx context.Context, tx any, lock Granted) error {
	if own, ok := lock.(interface{ Err() error }); ok {
		if err := own.Err(); err != nil {
			return fmt.Errorf("check in a transaction: %w", err)
		}
	}
	name, fence := storekit.StoredName(lock), lock.Fence()
	if err := driver.CheckName(name, &s.promises); err != nil {
		return err
	}
	if fence == 0 {
		return fmt.Errorf("check in a transaction: %w", driver.ErrLost)
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return fmt.Errorf("check in a transaction: %w", err)
	}
	defer done()
	own, err := txOf(tx)
	if err != nil {
		return err
	}
	st, now, err := s.pinShared(ctx, own, name)
	for try := 0; errors.Is(err, errPinned); try++ {
		// Another transaction has called LockTx. If it has got the name, the lock of this caller is
		// over. If it is refused, it ends soon.
		if st, now, err = s.rows.peekState(ctx, name); err != nil {
			err = dbms.Failure(ctx, err, false)
		} else if st.checkFence(fence, now) == nil {
			if !dbms.Pause(ctx, try) {
				return st.lockedByTx()
			}
			st, now, err = s.pinShared(ctx, own, name)
		}
	}
	if err == nil {
		err = st.checkFence(fence, now)
	}
	if err == nil {
		err = s.mark(ctx, own, marksIn(tx).add(name, fence))
	}
	if err != nil {
		return fmt.Errorf("check in a transaction: %w", err)
	}
	return nil
}

// checkFence returns nil if the grant with this fence has the name now. Otherwise it returns
// driver.ErrLost or driver.ErrExpired.
func (s *state) checkFence(fence uint64, now decide.Time) error {
	for i := range s.Holds {
		h := &s.Holds[i]
		// An exclusive reservation counts as a hold, because its waiter may use the name before it
		// claims the reservation.
		if h.Fence != fence || h.Reserved && h.Shared {
			continue
		}
		if h.Until <= now {
			return driver.ErrExpired
		}
		return nil
	}
	return driver.ErrLost
}

// LockTx takes the lock on name until tx ends. Such a lock has no lease and no fence. To break it,
// an operator has to end the transaction, and the database then discards what the transaction has
// written. LockTx never waits. If a lease has the name, also one of this process, or somebody waits
// for it, LockTx returns a *driver.HeldError.
//
// While tx is open, others who try the name get a *driver.HeldError. If a holder's lease has ended
// before LockTx, that holder gets driver.ErrLost from then on. A rollback to an earlier savepoint
// ends the lock. If the database ends tx itself, the lock ends too; see ConfirmTx.
//
// tx is a *sql.Tx or a [Tx]; see CheckTx. Call LockTx at the start of the transaction. With the
// isolation level REPEATABLE READ or SERIALIZABLE, tx sees the data as they were at its first read.
// Another process may have held the lock after that read, or have committed a transaction with
// CheckTx, and changed data that tx does not see. LockTx then returns [ErrTx], even if that read was a
// LockTx of another name. Roll back, and begin a new transaction.
//
// LockTx needs a second connection of the store's pool beside that of tx. It does not wait in the
// queue, so steady callers of Acquire can keep it out: use Acquire and CheckTx for a busy name.
func (s *Store) LockTx(ctx context.Context, tx any, name string) error {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	defer done()
	own, err := txOf(tx)
	if err != nil {
		return err
	}
	if s.rows.dialect.grants {
		err = s.lockRow(ctx, own, name)
	} else {
		err = s.lockFile(ctx, own, name)
	}
	if err == nil {
		err = s.mark(ctx, own, marksIn(tx).add(name, 0))
	}
	if held := new(driver.HeldError); err == nil || errors.As(err, &held) {
		return err
	}
	return fmt.Errorf("lock in a transaction: %w", err)
}

// lockRow does the work of LockTx on PostgreSQL and MySQL. It looks, writes and waits on other
// connections. In tx it locks the row, and reads nothing before it has the lock.
func (s *Store) lockRow(ctx context.Context, tx Tx, name string) error {
	if err := s.clearName(ctx, name); err != nil {
		return err
	}
	st, now, err := s.pinAlone(ctx, tx, name)
	for try := 2; err == errSkipped && try < 5 && dbms.Pause(ctx, try); try++ { // Inspect locks the row too, for a moment
		kept, failed := s.rows.isKept(ctx, name)
		if failed != nil {
			return dbms.Failure(ctx, failed, false)
		}
		if !kept {
			st, now, err = s.pinAlone(ctx, tx, name)
		}
	}
	if err == errSkipped {
		err = s.whyNoRow(ctx, tx, name)
	}
	if errors.Is(err, errPinned) {
		return (&state{}).lockedByTx()
	}
	if err != nil {
		return err
	}
	st.trim(now)
	if !st.isFree(now) || st.cleared != st.Fence { // somebody has got the name since clearName
		return st.refuseTx(now)
	}
	return nil
}

// clearName refuses a name that is taken, or that a transaction keeps. If the name was granted
// since it was last cleared, clearName writes to both of its rows as a grant does, and grants
// nothing. So a transaction whose snapshot is older fails in pinAlone, and a later snapshot has all
// that the holders before, and their transactions, have committed.
//
// Holders whose leases have ended get driver.ErrLost from then on.
func (s *Store) clearName(ctx context.Context, name string) error {
	for try := 0; ; try++ {
		st, now, err := s.peekForTx(ctx, name)
		if err != nil {
			return dbms.Failure(ctx, err, false)
		}
		st.trim(now)
		switch {
		case !st.isFree(now):
			return st.refuseTx(now)
		case st.cleared == st.Fence:
			return nil
		}
		st.DropLapsed(at(now))
		st.cleared = st.Fence
		saved, err := s.rows.saveState(ctx, name, st, true)
		switch {
		case saved:
			return nil
		case errors.Is(err, errRowLocked) && try >= 3:
			return st.lockedByTx()
		case err != nil && !errors.Is(err, errRowLocked) && dbms.Judge(err) != dbms.Again:
			return dbms.Failure(ctx, err, false)
		}
		if !dbms.Pause(ctx, try+2) {
			return dbms.Failure(ctx, cmp.Or(err, errBusy), false)
		}
	}
}

// lockFile does the work of LockTx on SQLite, which has only one writer.
func (s *Store) lockFile(ctx context.Context, tx Tx, name string) error {
	if _, err := tx.Exec(ctx, s.rows.sql.ensure, []byte(name), []byte{}); err != nil {
		return dbms.Failure(ctx, err, false)
	}
	st, now, err := s.pinFile(ctx, tx, name)
	if err != nil {
		return err
	}
	lapsed := st.lapse(now) < now
	st.trim(now)
	if !st.isFree(now) {
		return st.refuseTx(now)
	}
	if !lapsed {
		return nil
	}
	st.DropLapsed(at(now))
	values, err := st.values()
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, s.rows.sql.save, append(values, []byte(name), st.version)...)
	return dbms.Failure(ctx, err, false)
}

// lapse returns a time just before the first of the leases and reservations ended that have ended.
// If none has ended, it returns now.
func (s *state) lapse(now decide.Time) decide.Time {
	for _, h := range s.Holds {
		now = min(now, h.Until-1)
	}
	return now
}

// isFree reports whether a caller without a place in the queue may take the name.
func (s *state) isFree(now decide.Time) bool {
	return !s.Excludes("", false, at(now)) && s.isTurn(len(s.queue), now)
}

// refuseTx returns the error of LockTx for a name that is taken.
func (s *state) refuseTx(now decide.Time) error { return s.countWaiters(s.HeldError("", at(now))) }

// lockedByTx returns the error for an attempt to get the name while a transaction keeps it.
func (s *state) lockedByTx() error {
	return &driver.HeldError{Holds: []driver.Hold{{Holder: driver.Holder{Label: txLabel}}}, Waiters: len(s.queue)}
}
