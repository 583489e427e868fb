package symfony

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// write carries out a statement that may write the row of a name, and returns the row as it is
// afterwards. The caller learns from that row what the statement has done. If write returns
// driver.ErrUncertain, the statement may have been carried out.
func (s *Store) write(ctx context.Context, id, text string, args ...any) (row, error) {
	r, _, err := s.writeRow(ctx, id, text, args...)
	return r, err
}

// writeRow is like write, and also reports whether the statement has changed the row. On an engine
// without RETURNING, a statement that writes the old values again does not count as a change.
func (s *Store) writeRow(ctx context.Context, id, text string, args ...any) (r row, wrote bool, err error) {
	err = s.retry(ctx, func() error {
		if !dialects[s.engine].returns {
			res, err := s.db.ExecContext(ctx, text, args...)
			wrote, err = dbms.Changed(res, err)
			return err
		}
		r, err = scan(s.db.QueryRowContext(ctx, text, args...))
		return err
	})
	nothing := errors.Is(err, sql.ErrNoRows)
	switch {
	case err == nil && r.token != "":
		return r, true, nil
	case err != nil && !nothing:
		return row{}, false, dbms.Failure(ctx, err, true)
	}
	r, err = s.read(ctx, id)
	switch {
	case err == nil:
		return r, wrote, nil
	case nothing:
		return row{}, false, dbms.Failure(ctx, err, false)
	}
	// The statement was sent. So the error must not be ErrUnavailable, which means that nothing was
	// changed.
	if err = dbms.Failure(ctx, err, true); errors.Is(err, driver.ErrUnavailable) {
		return row{}, false, fmt.Errorf("%w: the database did not let the row be read afterwards", driver.ErrUncertain)
	}
	return row{}, false, errors.Join(err, driver.ErrUncertain)
}

// remove runs a statement that removes a row. It reports whether the statement has removed the row.
func (s *Store) remove(ctx context.Context, text string, args ...any) (removed bool, err error) {
	err = s.retry(ctx, func() error {
		res, err := s.db.ExecContext(ctx, text, args...)
		removed, err = dbms.Changed(res, err)
		return err
	})
	return removed, dbms.Failure(ctx, err, true)
}

// retry runs a statement. If the statement changed nothing and may succeed the next time, retry
// runs it again. If the table was removed, retry makes the table first.
func (s *Store) retry(ctx context.Context, statement func() error) error {
	made := false
	for try := 0; ; try++ {
		err := statement()
		switch v := dbms.Judge(err); {
		case err == nil || errors.Is(err, sql.ErrNoRows):
			return err
		case v == dbms.NoTable && !made:
			made = true
			if err := s.prepare(ctx); err != nil {
				return err
			}
		case v != dbms.Again || !dbms.Pause(ctx, try):
			return err
		}
	}
}

// glance reads the row of a name, within the time that one call may take.
func (s *Store) glance(ctx context.Context, id string) (row, error) {
	ctx, cancel := dbms.Bound(ctx)
	defer cancel()
	return s.readName(ctx, id)
}

// readName reads the row of a name.
func (s *Store) readName(ctx context.Context, id string) (is row, err error) {
	err = s.retry(ctx, func() error {
		is, err = s.read(ctx, id)
		return err
	})
	return is, dbms.Failure(ctx, err, false)
}
