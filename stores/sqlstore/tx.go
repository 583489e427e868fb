package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/decide"
)

// Granted is what CheckTx needs to know about a lock. *padlock.Lock implements it. The permit of a
// semaphore also has a method Slot; see storekit.StoredName.
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
// driver.ErrInvalid. Call CheckTx at the start of the transaction. If the isolation level is
// REPEATABLE READ or SERIALIZABLE, begin the transaction after Acquire.
//
// While tx is open, others who try the name get a *driver.HeldError. On PostgreSQL and MySQL,
// renewal, Release and Break do not wait for tx. On SQLite every write waits for it, so keep tx
// shorter than a third of the TTL.
//
// A rollback to an earlier savepoint ends the protection, and CheckTx has to be called again. If
// the database ends tx itself, the protection ends too; see ConfirmTx.
//
// The error is driver.ErrLost or driver.ErrExpired if the lock is not held any more, and another
// error if the database cannot tell. After any error, roll tx back. The lock must come from this
// store, and tx must be of the same database. A lock that was acquired as a shared lock must not
// have been promoted since then.
func (s *Store) CheckTx(ctx context.Context, tx any, lock Granted) error {
	name, fence := storekit.StoredName(lock), lock.Fence()
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
	own, err := txOf(tx)
	if err != nil {
		return err
	}
	st, now, err := s.pinShared(ctx, own, name)
	for try := 0; errors.Is(err, errPinned); try++ {
		// Another transaction has called LockTx. If it has got the name, the lock of this caller is
		// over. If it is refused, it ends soon.
		if st, now, err = s.rows.peekState(ctx, name); err != nil {
			err = failure(ctx, err, false)
		} else if st.checkFence(fence, now) == nil {
			if !s.retryPause(ctx, try) {
				return st.lockedByTx()
			}
			st, now, err = s.pinShared(ctx, own, name)
		}
	}
	if err == nil {
		err = st.checkFence(fence, now)
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
// written. LockTx never waits. It returns driver.ErrAlreadyHeld if this process has the name. If
// somebody else has the name or waits for it, LockTx returns a *driver.HeldError.
//
// While tx is open, others who try the name get a *driver.HeldError. If a holder's lease has ended
// before LockTx, that holder gets driver.ErrLost from then on. A rollback to an earlier savepoint
// ends the lock. If the database ends tx itself, the lock ends too; see ConfirmTx.
//
// tx is a *sql.Tx or a [Tx]; see CheckTx. Call LockTx at the start of the transaction. With the
// isolation level REPEATABLE READ or SERIALIZABLE, tx sees the data as they were at its first read.
// Another process may have held the lock after that read, and changed data that tx does not see.
// LockTx then fails.
func (s *Store) LockTx(ctx context.Context, tx any, name string) error {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return err
	}
	ctx, done, err := s.begin(ctx)
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
	if held := new(driver.HeldError); err == nil || errors.As(err, &held) {
		return err
	}
	return fmt.Errorf("lock in a transaction: %w", err)
}

// lockRow does the work of LockTx on PostgreSQL and MySQL.
//
// It first looks at the name on another connection. If the name is taken, lockRow refuses it, and
// locks nothing in tx. If leases have ended, it marks them there as lost. It cannot do that in tx,
// because renewals and waiters would have to wait until tx ends.
func (s *Store) lockRow(ctx context.Context, tx Tx, name string) error {
	st, now, err := s.peekForTx(ctx, name)
	if err != nil {
		return failure(ctx, err, false)
	}
	lapsed := st.lapse(now) < now
	st.trim(now)
	if !st.isFree(now) {
		return st.refuseTx(now)
	}
	if lapsed {
		if err := s.markLapsed(ctx, name); err != nil {
			return err
		}
	}
	st, now, err = s.pinAlone(ctx, tx, name)
	for try := 0; errors.Is(err, errPinned) && try < 3 && s.retryPause(ctx, try+2); try++ {
		st, now, err = s.pinAlone(ctx, tx, name) // Inspect locks the row too, for a moment
	}
	if errors.Is(err, errPinned) {
		return (&state{}).lockedByTx()
	}
	if err != nil {
		return err
	}
	now = st.lapse(now) // a lease that has ended since the first look is not marked, so it still counts
	st.trim(now)
	if !st.isFree(now) {
		return st.refuseTx(now)
	}
	return nil
}

// lockFile does the work of LockTx on SQLite, which has only one writer.
func (s *Store) lockFile(ctx context.Context, tx Tx, name string) error {
	if _, err := tx.Exec(ctx, s.rows.sql.ensure, []byte(name), []byte{}); err != nil {
		return failure(ctx, err, false)
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
	return failure(ctx, err, false)
}

// markLapsed records that LockTx has taken the name after leases of it have ended. Extend and
// Release of their holders return driver.ErrLost from then on.
//
// If another transaction keeps the name, markLapsed does nothing, because LockTx will not get it.
func (s *Store) markLapsed(ctx context.Context, name string) error {
	if kept, err := s.rows.isKept(ctx, name); kept || err != nil {
		return failure(ctx, err, false)
	}
	_, _, _, err := s.changeRow(ctx, name, func(st *state, now decide.Time) result {
		st.DropLapsed(at(now))
		return result{write: true, quiet: true}
	})
	return err
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
func (s *state) refuseTx(now decide.Time) error {
	err := s.HeldError("", at(now))
	for _, h := range err.Holds {
		if host, _ := os.Hostname(); h.PID == os.Getpid() && h.Host == host && !h.Cooling {
			return driver.ErrAlreadyHeld
		}
	}
	return s.countWaiters(err)
}

// lockedByTx returns the error for an attempt to get the name while a transaction keeps it.
func (s *state) lockedByTx() error {
	return &driver.HeldError{Holds: []driver.Hold{{Holder: driver.Holder{Label: txLabel}}}, Waiters: len(s.queue)}
}
