package symfony

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Inspect implements driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := s.checkName(name); err != nil {
		return driver.State{}, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.State{}, err
	}
	defer done()
	id := s.layout.storedID(s.engine, name)
	is, err := s.readName(ctx, id)
	if err != nil {
		return driver.State{}, err
	}
	st := driver.State{Name: name, Waiters: -1}
	if is.live() {
		st.Holds = append(st.Holds, s.holdIn(id, &is))
	}
	return st, nil
}

// List implements driver.Admin. It lists only names that the table has in plain text. If the table
// also has hashes of names, List returns errors.ErrUnsupported. With Symfony73 it always does.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := s.db.QueryContext(ctx, s.sql.list)
	if err != nil {
		return nil, dbms.Failure(ctx, err, false)
	}
	defer rows.Close()
	var out []driver.State
	unknown := 0
	for rows.Next() {
		var id string
		is, err := scan(rows, &id)
		switch {
		case err != nil:
			return nil, dbms.Failure(ctx, err, false)
		case len(id) >= minHashed || s.layout == Symfony73:
			unknown++
		case strings.HasPrefix(id, prefix):
			out = append(out, driver.State{Name: id, Waiters: -1, Holds: []driver.Hold{s.holdIn(id, &is)}})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, dbms.Failure(ctx, err, false)
	}
	if unknown > 0 {
		return out, fmt.Errorf("%w: %d locks have names that Symfony stores as a hash", errors.ErrUnsupported, unknown)
	}
	if s.layout == Symfony73 {
		return nil, errors.ErrUnsupported
	}
	return out, nil
}

// Break implements driver.Admin. The table has no fences, so seenFence must be 0. Break ends the
// hold that the name has at that moment, and returns 0.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := s.checkName(name); err != nil {
		return 0, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return 0, err
	}
	defer done()
	if seenFence != 0 {
		return 0, driver.ErrLost // a hold in this table never has a fence
	}
	id := s.layout.storedID(s.engine, name)
	removed, err := s.remove(ctx, s.sql.evict, id)
	if err != nil {
		return 0, err
	}
	s.here.wake(id)
	if !removed {
		return 0, driver.ErrLost
	}
	return 0, nil
}
