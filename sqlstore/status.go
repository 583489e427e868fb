package sqlstore

import (
	"context"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/sqlstore/internal/dbms"
)

// Status implements driver.Reporter: it asks the server for the settings that matter for locks.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return dbms.Settings(ctx, s.rows.db, s.engine.String())
}
