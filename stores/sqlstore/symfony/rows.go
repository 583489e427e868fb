package symfony

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// micros is a time by the server's clock: microseconds since 1970.
type micros int64

// timeUntil returns the time from now to t.
func (t micros) timeUntil(now micros) time.Duration { return time.Duration(t-now) * time.Microsecond }

// A row is what the table contains about one name. The zero value means that the table contains
// nothing about the name.
type row struct {
	token   string // as it is stored
	end     micros // of the lease
	endless bool
	now     micros // when it was read
}

// live reports whether somebody holds the name.
func (r *row) live() bool { return r.token != "" && (r.endless || r.end > r.now) }

// scan makes a row of the last three columns of a query's result. The result may have more columns
// before them. The caller passes a pointer for each of those, and scan stores their values there.
func scan(from interface{ Scan(dest ...any) error }, leading ...any) (row, error) {
	var r row
	// In SQLite, PHP may write a time with a fraction of a second.
	var end sql.NullFloat64
	if err := from.Scan(append(leading, &r.token, &end, &r.now)...); err != nil {
		return row{}, err
	}
	r.end, r.endless = micros(end.Float64*1e6), !end.Valid
	return r, nil
}

// read reads the row of a name.
func (s *Store) read(ctx context.Context, id string) (row, error) {
	r, err := scan(s.db.QueryRowContext(ctx, s.sql.read, id))
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, nil
	}
	return r, err
}
