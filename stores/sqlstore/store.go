package sqlstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Store keeps locks in a table. It is safe for concurrent use.
type Store struct {
	engine   Engine
	rows     table
	cfg      config
	clock    driver.Clock
	promises driver.Guarantees

	calls   storekit.Calls
	checked atomic.Bool            // check has succeeded
	home    atomic.Pointer[string] // names the store's tables and their database; see checkID
	local   localWaiters           // the waiters of this process
}

// Close ends all waits, and returns when every call has ended. It leaves the *sql.DB open, unless
// FromURL opened it. Locks stay held until their leases end.
func (s *Store) Close() error {
	first := s.calls.End()
	s.calls.Work.Wait()
	s.rows.kept.closeAll()
	if first && s.cfg.ownsDB {
		return s.rows.db.Close()
	}
	return nil
}

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees { return s.promises }

// String returns the engine and the name of the table.
func (s *Store) String() string { return s.engine.String() + " " + s.rows.tables.locks }

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.promises); err != nil {
		return driver.Grant{}, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	if g, ok, err := s.rows.takeFree(ctx, &r); ok || err != nil {
		return g, err
	}
	st, res, now, err := s.changeRow(ctx, r.Name, func(st *state, now decide.Time) result {
		before := st.Fence
		h, err := st.acquire(&r, now)
		return result{hold: h, write: err == nil, grant: st.Fence != before, err: err}
	})
	if errors.Is(err, errRowLocked) {
		return driver.Grant{}, st.lockedByTx()
	}
	return res.answer(now), err
}

// Extend implements driver.Store.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &s.promises); err != nil {
		return driver.Grant{}, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	return s.extendOne(ctx, name, token, ttl)
}

// extendOne extends a hold after its arguments were checked.
func (s *Store) extendOne(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if ttl != 0 {
		switch ok, err := s.rows.prolong(ctx, name, token, ttl.Microseconds()); {
		case err != nil:
			return driver.Grant{}, err
		case ok:
			return driver.Grant{TTL: ttl}, nil
		}
	}
	_, res, now, err := s.changeRow(ctx, name, func(st *state, now decide.Time) result {
		h, err := st.Extend(token, ttl, at(now))
		return result{hold: h, write: err == nil && ttl != 0, quiet: true, err: err}
	})
	return res.answer(now), err
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.promises); err != nil {
		return driver.OutcomeGone, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.OutcomeGone, err
	}
	defer done()
	if keep == 0 {
		if ok, err := s.rows.dropHold(ctx, name, token); ok || err != nil {
			s.local.wakeFirst(name, "")
			return released(ok), err
		}
	}
	out := driver.OutcomeGone
	_, _, _, err = s.changeRow(ctx, name, func(st *state, now decide.Time) result {
		out = st.release(token, keep, now)
		return result{write: true}
	})
	if err != nil {
		return driver.OutcomeGone, err
	}
	return out, nil
}
