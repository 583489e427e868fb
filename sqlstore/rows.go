package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/padlock-go/padlock/driver"
)

// The table of locks has one row a name.
//
//	name      the name
//	version   is one higher after each change; a change of a row that was read before names it
//	fence     the highest fence minted for the name
//	token     of the exclusive hold or of a reservation for one; empty: there is none
//	reserved  1: it has not been claimed yet
//	since, until, least   of that hold, microseconds since 1970 by the server's clock
//	holder    of that hold, JSON
//	busy      until then, more than these columns decides who may have the name
//	more      the rest of the state, JSON; empty: there is none
//
// The table of grants has one row a name, too, with the fence of the last grant. A grant locks that
// row; renewal, release and Break do not. So a transaction that locks the row keeps others from
// getting the name and is in nobody's way otherwise. SQLite has no such table: it has one writer at
// a time.

// statements are the texts for one store, made once.
type statements struct {
	load, ensure, ensureGrant, save, saveGrant, lockGrant, setGrant string
	list, readGrant                                                 string
	acquire, extend, release                                        string
	tx                                                              txStatements
}

// assignment is what save writes.
const assignment = "version = version + 1, fence = ?, token = ?, reserved = ?, since = ?, until = ?, least = ?, holder = ?, busy = ?, more = ?"

const columns = "name, version, fence, token, reserved, since, until, least, holder, busy, more"

func newStatements(d *dialect, t tables) statements {
	b := d.bind
	st := statements{
		load: b("SELECT " + columns + ", " + d.now + " FROM " + t.locks + " WHERE name = ?"),
		list: b("SELECT " + columns + ", " + d.now + " FROM " + t.locks + " WHERE name >= ? AND (token <> ? OR busy > " + d.now + ") ORDER BY name"),
		save: b("UPDATE " + t.locks + " SET " + assignment + " WHERE name = ? AND version = ?"),
	}
	insert := func(table, cols, values string) string {
		if d == dialects[MySQL] {
			return b("INSERT INTO " + table + " (" + cols + ") VALUES (" + values + ") ON DUPLICATE KEY UPDATE name = name")
		}
		return b("INSERT INTO " + table + " (" + cols + ") VALUES (" + values + ") ON CONFLICT (name) DO NOTHING")
	}
	st.ensure = insert(t.locks, columns, "?, 1, 0, ?, 0, 0, 0, 0, '', 0, ''")
	if d.grants {
		st.ensureGrant = insert(t.grants, "name, fence, locked", "?, 0, 0")
		st.lockGrant = b("SELECT fence FROM " + t.grants + " WHERE name = ?" + d.nowait)
		st.readGrant = b("SELECT fence FROM " + t.grants + " WHERE name = ?")
		st.setGrant = b("UPDATE " + t.grants + " SET fence = ? WHERE name = ?")
	}
	if d == dialects[PostgreSQL] {
		st.saveGrant = b("WITH g AS MATERIALIZED (SELECT name FROM " + t.grants + " WHERE name = ? FOR UPDATE SKIP LOCKED), " +
			"l AS (UPDATE " + t.locks + " l SET " + assignment + " FROM g WHERE l.name = g.name AND l.version = ? RETURNING l.name, l.fence), " +
			"u AS (UPDATE " + t.grants + " x SET fence = l.fence FROM l WHERE x.name = l.name) " +
			"SELECT (SELECT count(*) FROM g), (SELECT count(*) FROM l)")
	}
	st.fast(d, t)
	st.tx = newTxStatements(d, t)
	return st
}

// fast makes the statements for what happens most: a free name is taken, and a hold is extended or
// given back while nobody waits. They change nothing where more than the columns decides.
func (st *statements) fast(d *dialect, t tables) {
	take := "UPDATE " + t.locks + " AS l SET version = l.version + 1, fence = " + d.max("l.fence + 1", d.max("?", d.now)) +
		", token = ?, reserved = 0, since = " + d.now + ", until = " + d.now + " + ?, least = CASE WHEN ? > 0 THEN " + d.now + " + ? ELSE 0 END, holder = ?"
	free := "l.token = ? AND l.busy <= " + d.now + " AND l.fence < " + strconv.Itoa(driver.MaxFence-2)
	switch {
	case d.numbers:
		st.acquire = d.bind("WITH g AS MATERIALIZED (SELECT name FROM " + t.grants + " WHERE name = ? FOR UPDATE SKIP LOCKED), " +
			"l AS (" + take + " FROM g WHERE l.name = g.name AND " + free + " RETURNING l.name, l.fence), " +
			"u AS (UPDATE " + t.grants + " x SET fence = l.fence FROM l WHERE x.name = l.name) SELECT fence FROM l")
	case !d.grants:
		st.acquire = take + " WHERE " + free + " AND l.name = ? RETURNING fence"
	}
	mine := " WHERE name = ? AND token = ? AND reserved = 0 AND until > " + d.now
	st.extend = d.bind("UPDATE " + t.locks + " SET version = version + 1, until = " + d.max("until", d.now+" + ?") + mine)
	st.release = d.bind("UPDATE " + t.locks + " SET version = version + 1, token = ?, since = 0, until = 0, least = 0, holder = ''" +
		mine + " AND least <= " + d.now + " AND busy <= " + d.now)
}

// more is what the column of that name has.
type more struct {
	Holds  []hold        `json:"holds,omitempty"`
	Queue  []place       `json:"queue,omitempty"`
	Lost   []opaque      `json:"lost,omitempty"`
	Spent  []spent       `json:"spent,omitempty"`
	Intent intent        `json:"intent,omitzero"`
	Free   micros        `json:"free,omitempty"`
	Cool   micros        `json:"cool,omitempty"`
	Cooled driver.Holder `json:"cooled,omitzero"`
}

// scan reads one row.
func scan(row interface{ Scan(dest ...any) error }) (name string, s *state, now micros, err error) {
	var rawName, token []byte
	var reserved int
	var busy int64
	var holder, rest string
	h := hold{}
	s = &state{}
	if err := row.Scan(&rawName, &s.version, &s.fence, &token, &reserved, &h.Since, &h.Until, &h.Least, &holder, &busy, &rest, &now); err != nil {
		return "", nil, 0, err
	}
	if len(token) > 0 {
		h.Token, h.Reserved, h.Fence = opaque(token), reserved != 0, s.fence
		if err := decode(holder, &h.Holder); err != nil {
			return "", nil, 0, err
		}
		s.holds = append(s.holds, h)
	}
	var m more
	if err := decode(rest, &m); err != nil {
		return "", nil, 0, err
	}
	s.holds = append(s.holds, m.Holds...)
	s.queue, s.lost, s.spent, s.intent, s.free, s.cool, s.cooled = m.Queue, m.Lost, m.Spent, m.Intent, m.Free, m.Cool, m.Cooled
	return string(rawName), s, now, nil
}

func decode(text string, into any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("a row of the table of locks is damaged: %w", err)
	}
	return nil
}

// values are the arguments of assignment.
func (s *state) values() ([]any, error) {
	h, others := s.exclusive()
	if h == nil {
		h = &hold{}
	}
	m := more{others, s.queue, s.lost, s.spent, s.intent, s.free, s.cool, s.cooled}
	rest, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if string(rest) == "{}" {
		rest = nil
	}
	holder, err := encodeHolder(h)
	if err != nil {
		return nil, err
	}
	reserved := 0
	if h.Reserved {
		reserved = 1
	}
	return []any{int64(s.fence), []byte(h.Token), reserved, int64(h.Since), int64(h.Until), int64(h.Least), holder, int64(s.busy()), string(rest)}, nil
}

func encodeHolder(h *hold) (string, error) {
	if h.Token == "" {
		return "", nil
	}
	text, err := json.Marshal(h.Holder)
	return string(text), err
}

// load reads the state of a name, and makes its rows if there are none.
func (s *Store) load(ctx context.Context, name string) (*state, micros, error) {
	for range 3 {
		_, st, now, err := scan(s.db.QueryRowContext(ctx, s.sql.load, []byte(name)))
		if !errors.Is(err, sql.ErrNoRows) {
			return st, now, err
		}
		if err := s.makeRows(ctx, name); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, errors.New("the row of the name is removed again and again")
}

// peek reads the state of a name without making a row for it.
func (s *Store) peek(ctx context.Context, name string) (*state, micros, error) {
	_, st, now, err := scan(s.db.QueryRowContext(ctx, s.sql.load, []byte(name)))
	if errors.Is(err, sql.ErrNoRows) {
		return &state{}, 0, nil
	}
	return st, now, err
}

func (s *Store) makeRows(ctx context.Context, name string) error {
	if s.dialect.grants {
		if _, err := s.db.ExecContext(ctx, s.sql.ensureGrant, []byte(name)); err != nil {
			return err
		}
	}
	_, err := s.db.ExecContext(ctx, s.sql.ensure, []byte(name), []byte{})
	return err
}

// errRowLocked: a transaction has locked the row of the last grant.
var errRowLocked = errors.New("a transaction has locked the row of the last grant")

// save writes the state if the row is still as it was loaded, and reports whether it was. With
// grant, it sets the fence of the last grant, too: errRowLocked if a transaction has that row.
func (s *Store) save(ctx context.Context, name string, st *state, grant bool) (bool, error) {
	values, err := st.values()
	if err != nil {
		return false, err
	}
	if !grant || !s.dialect.grants {
		return changed(s.db.ExecContext(ctx, s.sql.save, append(values, []byte(name), st.version)...))
	}
	if s.sql.saveGrant == "" {
		return s.saveInTx(ctx, name, st, values)
	}
	args := append([]any{[]byte(name)}, append(values, st.version)...)
	var locked, saved int
	if err := s.db.QueryRowContext(ctx, s.sql.saveGrant, args...).Scan(&locked, &saved); err != nil {
		return false, err
	}
	if locked == 0 {
		return false, s.whyNoGrant(ctx, name)
	}
	return saved == 1, nil
}

// whyNoGrant tells a row of the table of grants that is locked from one that is not there, which
// it makes.
func (s *Store) whyNoGrant(ctx context.Context, name string) error {
	switch there, err := s.hasGrant(ctx, name); {
	case err != nil:
		return err
	case !there:
		return s.makeRows(ctx, name)
	}
	return errRowLocked
}

// hasGrant reports whether a name has a row in the table of grants. An INSERT would wait for a
// transaction that has the row.
func (s *Store) hasGrant(ctx context.Context, name string) (bool, error) {
	var fence int64
	err := s.db.QueryRowContext(ctx, s.sql.readGrant, []byte(name)).Scan(&fence)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// saveInTx is save with a grant where no single statement can write to both tables.
func (s *Store) saveInTx(ctx context.Context, name string, st *state, values []any) (bool, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	var fence int64
	switch err := tx.QueryRowContext(ctx, s.sql.lockGrant, []byte(name)).Scan(&fence); {
	case errors.Is(err, sql.ErrNoRows):
		return false, s.makeRows(ctx, name)
	case err != nil && judge(err) == rowLocked:
		return false, errRowLocked
	case err != nil:
		return false, err
	}
	ok, err := changed(tx.ExecContext(ctx, s.sql.save, append(values, []byte(name), st.version)...))
	if !ok || err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, s.sql.setGrant, int64(st.fence), []byte(name)); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// changed reports whether a statement changed a row.
func changed(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
