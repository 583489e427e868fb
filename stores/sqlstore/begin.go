package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// check checks the server and makes the tables. After the first success it does nothing. It tries
// again if another process writes at the same time, as in a busy SQLite file.
func (s *Store) check(ctx context.Context) error {
	for try := 0; !s.checked.Load(); try++ {
		if err := s.checkOnce(ctx); err != nil && (dbms.Judge(err) != dbms.Again || !dbms.Pause(ctx, try)) {
			return err
		}
	}
	return dbms.Failure(ctx, s.rows.db.Here(ctx), false) // before a transaction of the caller is used
}

func (s *Store) checkOnce(ctx context.Context) error {
	if !s.cfg.lenient {
		if err := dbms.Examine(ctx, s.rows.db, s.engine.String()); err != nil {
			return err
		}
	}
	if err := s.prepare(ctx, false); err != nil {
		return err
	}
	if s.engine == MySQL {
		version, err := dbms.Ask(ctx, s.rows.db, "SELECT version()")
		if err != nil {
			return dbms.Failure(ctx, err, false)
		}
		s.rows.mariaDB.Store(strings.Contains(version, "MariaDB"))
		if f := s.tableEngine(ctx); f.Advice != "" && !s.cfg.lenient {
			return fmt.Errorf("%w: the tables of %s have the engine %s: %s", driver.ErrUnavailable, s.rows.tables.locks, f.Value, f.Advice)
		}
	}
	if !s.checked.Swap(true) && !s.cfg.lenient && s.cfg.keepFor() > 0 {
		s.calls.Work.Go(s.pruneInBackground)
	}
	return nil
}
