package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// Store keeps locks in a table. It is safe for concurrent use.
type Store struct {
	engine   Engine
	rows     table
	cfg      config
	clock    driver.Clock
	promises driver.Guarantees

	closing context.Context // canceled by Close
	end     context.CancelFunc
	work    sync.WaitGroup // calls that are running
	mu      sync.Mutex     // protects the next field, and must be locked to call work.Add
	closed  bool

	checked atomic.Bool            // check has succeeded
	id      atomic.Pointer[string] // the store's id, as it was last read
	local   localWaiters           // the waiters of this process
}

// Close ends all waits, and returns when every call has ended. It leaves the *sql.DB open, unless
// FromURL opened it. Locks stay held until their leases end.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.work.Wait()
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
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	if s.local.takeClaim(r.Token) {
		if g, ok, err := s.rows.claimHold(ctx, &r); ok || err != nil {
			return g, err
		}
	}
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
	err := driver.CheckHold(name, token, &s.promises)
	if err == nil && ttl != 0 {
		err = driver.CheckTTL("TTL", ttl, &s.promises)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	ctx, done, err := s.begin(ctx)
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
	err := cmp.Or(driver.CheckHold(name, token, &s.promises), driver.CheckKeep("cool-down", keep, &s.promises))
	if err != nil {
		return driver.OutcomeGone, err
	}
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return driver.OutcomeGone, err
	}
	defer done()
	s.local.takeClaim(token)
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
