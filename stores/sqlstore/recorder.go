package sqlstore

import (
	"cmp"
	"context"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Record implements fast.Recorder. If the table of records does not exist, Record makes it. If
// the user may not make tables, the error says what to do. Records are removed [fast.RecordKeep]
// after they were written.
func (s *Store) Record(ctx context.Context, name string, records []fast.Record) error {
	if err := cmp.Or(driver.CheckName(name, &s.promises), fast.CheckRecords(records)); err != nil {
		return err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return err
	}
	defer done()
	trimmed := map[byte]bool{}
	for _, r := range records {
		if err := s.execRecord(ctx, s.rows.sql.records.write, []byte(name), []byte(r.ID), r.Text); err != nil {
			return err
		}
		trimmed[r.ID[0]] = true
	}
	for series := range trimmed {
		own := []any{[]byte(name), []byte{series}, []byte{series + 1}}
		if err := s.execRecord(ctx, s.rows.sql.records.trim, append(own, own...)...); err != nil {
			return err
		}
	}
	return nil
}

// execRecord executes a statement on the table of records. If the table is missing, execRecord
// makes the tables. If another statement was in the way, execRecord tries again.
func (s *Store) execRecord(ctx context.Context, text string, args ...any) error {
	for try := 0; ; try++ {
		_, err := s.rows.db.ExecContext(ctx, text, args...)
		verdict := dbms.Judge(err)
		switch {
		case err == nil:
			return nil
		case verdict == dbms.NoTable && try < 3:
			if err := s.rows.make(ctx); err != nil && dbms.Judge(err) != dbms.Again {
				return err
			}
		case verdict != dbms.Again || !dbms.Pause(ctx, try):
			return dbms.Failure(ctx, err, true)
		}
	}
}

// Records implements fast.Recorder.
func (s *Store) Records(ctx context.Context, name string) (records []fast.Record, err error) {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return nil, err
	}
	err = s.readRecords(ctx, s.rows.sql.records.read, func(scan func(...any) error) error {
		var id []byte
		var r fast.Record
		err := scan(&id, &r.Text)
		r.ID = string(id)
		records = append(records, r)
		return err
	}, []byte(name))
	return records, err
}

// Recorded implements fast.Recorder.
func (s *Store) Recorded(ctx context.Context, prefix string, most int) (map[string][]fast.Record, error) {
	all := map[string][]fast.Record{}
	from, to := rangeOf(prefix)
	err := s.readRecords(ctx, s.rows.sql.records.newest, func(scan func(...any) error) error {
		var name, id []byte
		var r fast.Record
		err := scan(&name, &id, &r.Text)
		r.ID = string(id)
		all[string(name)] = append(all[string(name)], r)
		return err
	}, from, to, most)
	return all, err
}

// readRecords runs a query, and calls the function row for each row of the
// result. If the table of records is missing, the result has no rows.
func (s *Store) readRecords(ctx context.Context, text string, row func(scan func(...any) error) error, args ...any) error {
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return err
	}
	defer done()
	rows, err := s.rows.db.QueryContext(ctx, text, args...)
	if dbms.Judge(err) == dbms.NoTable {
		return nil
	}
	if err != nil {
		return dbms.Failure(ctx, err, false)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return dbms.Failure(ctx, err, false)
		}
	}
	return dbms.Failure(ctx, rows.Err(), false)
}
