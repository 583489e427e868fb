package symfony

import (
	"sync/atomic"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/sqlpool"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// Store keeps locks in Symfony's table. It is safe for concurrent use.
type Store struct {
	engine   sqlstore.Engine
	layout   Layout
	cfg      config
	promises driver.Guarantees
	db       *sqlpool.Pool
	sql      statements

	calls   storekit.Calls
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

// Close ends all waits, and returns when every call has ended. It leaves the *sql.DB open, unless
// FromURL opened it. Locks stay held until their leases end.
func (s *Store) Close() error {
	first := s.calls.End()
	s.calls.Work.Wait()
	if first && s.cfg.ownsDB {
		return s.db.Close()
	}
	return nil
}
