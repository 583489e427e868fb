package symfony

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Store keeps locks in Symfony's table. It is safe for concurrent use.
type Store struct {
	engine   sqlstore.Engine
	layout   Layout
	cfg      config
	promises driver.Guarantees
	db       *sql.DB
	sql      statements

	closing context.Context // canceled by Close
	end     context.CancelFunc
	work    sync.WaitGroup // calls that are running
	mu      sync.Mutex     // protects the next field, and must be locked to call work.Add
	closed  bool

	checked atomic.Bool  // check has succeeded
	here    localParties // the holds and the waiters of this process
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Admin
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees { return s.promises }

// String returns the engine, the table and the layout.
func (s *Store) String() string {
	return s.engine.String() + " " + s.cfg.table + " layout=" + s.layout.String()
}

// enter starts a call, which the caller ends with done. The returned context has the deadline of a
// call (see dbms.Bound).
func (s *Store) enter(ctx context.Context) (bounded context.Context, done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, driver.ErrClosed
	}
	s.work.Add(1)
	bounded, cancel := dbms.Bound(ctx)
	return bounded, func() { cancel(); s.work.Done() }, nil
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
	if first && s.cfg.ownsDB {
		return s.db.Close()
	}
	return nil
}

// retryPause waits a little before the next try, longer each time. It returns false when ctx ends.
func retryPause(ctx context.Context, try int) bool {
	d := time.Duration(rand.Int64N(int64(time.Millisecond)<<min(try, 5))) + 50*time.Microsecond
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
