package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/sqlpool"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// moreColumn is the content of the column "more".
type moreColumn struct {
	Holds  []rowHold     `json:"holds,omitempty"`
	Queue  []place       `json:"queue,omitempty"`
	Lost   []opaque      `json:"lost,omitempty"`
	Spent  []rowToken    `json:"spent,omitempty"`
	Intent rowToken      `json:"intent,omitzero"`
	Free   decide.Time   `json:"free,omitempty"`
	Cool   decide.Time   `json:"cool,omitempty"`
	Cooled driver.Holder `json:"cooled,omitzero"`

	Cleared uint64 `json:"cleared,omitempty"`
}

// A rowHold is a hold in the column "more".
type rowHold struct {
	Token    opaque        `json:"t"`
	Shared   bool          `json:"s,omitempty"`
	Reserved bool          `json:"r,omitempty"`
	Fence    uint64        `json:"f"`
	Since    decide.Time   `json:"b"`
	Until    decide.Time   `json:"u"`
	Holder   driver.Holder `json:"h"`
}

// A rowToken is a spent token or an intent in the column "more".
type rowToken struct {
	Token opaque      `json:"t,omitempty"`
	Until decide.Time `json:"u,omitempty"`
}

// each returns the results of f for the elements of list.
func each[A, B any](list []A, f func(A) B) (out []B) {
	for _, one := range list {
		out = append(out, f(one))
	}
	return out
}

// moreOf returns what the column "more" has to contain. others are the holds without columns of
// their own.
func (s *state) moreOf(others []decide.Hold) moreColumn {
	return moreColumn{
		Holds: each(others, func(h decide.Hold) rowHold {
			return rowHold{opaque(h.Token), h.Shared, h.Reserved, h.Fence, h.Since, h.Until, h.Holder}
		}),
		Queue:  s.queue,
		Lost:   each(s.Taken, func(token string) opaque { return opaque(token) }),
		Spent:  each(s.Spent, func(p decide.Spent) rowToken { return rowToken{opaque(p.Token), p.Until} }),
		Intent: rowToken{opaque(s.Intent.Token), s.Intent.Until},
		Free:   s.free,
		Cool:   s.Cool,
		Cooled: s.Cooled,

		Cleared: s.cleared,
	}
}

// addMore adds the contents of the column "more" to the state.
func (s *state) addMore(m *moreColumn) {
	for _, h := range m.Holds {
		s.Holds = append(s.Holds, decide.Hold{
			Token: string(h.Token), Shared: h.Shared, Reserved: h.Reserved, Fence: h.Fence,
			Since: h.Since, Until: h.Until, Holder: h.Holder,
		})
	}
	s.Taken = each(m.Lost, func(token opaque) string { return string(token) })
	s.Spent = each(m.Spent, func(p rowToken) decide.Spent { return decide.Spent{Token: string(p.Token), Until: p.Until} })
	s.Intent = decide.Intent{Token: string(m.Intent.Token), Until: m.Intent.Until}
	s.queue, s.free, s.Cool, s.Cooled, s.cleared = m.Queue, m.Free, m.Cool, m.Cooled, m.Cleared
}

// scan reads the state of a name from one row of a result. The row may begin with other columns.
// The caller passes one pointer for each of them, and scan stores their values there.
func scan(row interface{ Scan(dest ...any) error }, leading ...any) (name string, s *state, now decide.Time, err error) {
	var rawName, token []byte
	var reserved int
	var busy int64
	var holder, rest string
	h := decide.Hold{}
	s = &state{}
	if err := row.Scan(append(leading, &rawName, &s.version, &s.Fence, &token, &reserved, &h.Since, &h.Until, &holder, &busy, &rest, &now)...); err != nil {
		return "", nil, 0, err
	}
	if len(token) > 0 {
		h.Token, h.Reserved, h.Fence = string(token), reserved != 0, s.Fence
		if err := decode(holder, &h.Holder); err != nil {
			return "", nil, 0, err
		}
		s.Holds = append(s.Holds, h)
	}
	var m moreColumn
	if err := decode(rest, &m); err != nil {
		return "", nil, 0, err
	}
	s.addMore(&m)
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

// values returns the values of the columns, in the order in which setClause lists the columns.
func (s *state) values() ([]any, error) {
	h, others := s.exclusive()
	if h == nil {
		h = &decide.Hold{}
	}
	rest, err := asciiJSON(s.moreOf(others))
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
	return []any{int64(s.Fence), []byte(h.Token), reserved, int64(h.Since), int64(h.Until), holder, int64(s.busyUntil()), string(rest)}, nil
}

func encodeHolder(h *decide.Hold) (string, error) {
	if h.Token == "" {
		return "", nil
	}
	text, err := asciiJSON(h.Holder)
	return string(text), err
}

// asciiJSON returns v in JSON. Characters outside ASCII are escaped, because the database or the
// connection may use a character set without them.
func asciiJSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil || !bytes.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return text, err
	}
	var out []byte
	for _, c := range string(text) {
		if c < utf8.RuneSelf {
			out = append(out, byte(c))
			continue
		}
		for _, unit := range utf16.Encode([]rune{c}) {
			out = fmt.Appendf(out, "\\u%04x", unit)
		}
	}
	return out, nil
}

// A table holds the rows of all names in one database.
type table struct {
	db      *sqlpool.Pool
	dialect *dialect
	tables  tables
	sql     statements
	kept    stmtCache
	mariaDB atomic.Bool                     // the server is MariaDB, not MySQL; see saveInOne
	make    func(ctx context.Context) error // makes the tables again after they were removed or lost
}

// loadState reads the state of a name. If the name has no rows, loadState makes them.
func (t *table) loadState(ctx context.Context, name string) (*state, decide.Time, error) {
	for range 3 {
		_, st, now, err := scan(t.queryRow(ctx, t.sql.load, []byte(name)))
		switch {
		case err == nil:
			return st, now, nil
		case dbms.Judge(err) == dbms.NoTable:
			err = t.make(ctx)
		case errors.Is(err, sql.ErrNoRows):
			err = t.makeRows(ctx, name)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, errRemoved
}

var errRemoved = errors.New("the row of the name is removed again and again")

// peekState reads the state of a name. It creates neither a row nor a table.
func (t *table) peekState(ctx context.Context, name string) (*state, decide.Time, error) {
	_, st, now, err := scan(t.queryRow(ctx, t.sql.load, []byte(name)))
	if errors.Is(err, sql.ErrNoRows) || dbms.Judge(err) == dbms.NoTable {
		return &state{}, 0, nil
	}
	return st, now, err
}

// peekBoth is like peekState, and reports whether the name has both of its rows. It is for
// PostgreSQL and MySQL.
func (t *table) peekBoth(ctx context.Context, name string) (st *state, now decide.Time, both bool, err error) {
	_, st, now, err = scan(t.queryRow(ctx, t.sql.loadBoth, []byte(name)), &both)
	if errors.Is(err, sql.ErrNoRows) {
		return &state{}, 0, false, nil
	}
	return st, now, both, err
}

// makeRows makes the rows of a name that are missing. On MySQL, the process may die after the first
// of the two statements, so one row may be missing.
func (t *table) makeRows(ctx context.Context, name string) error {
	if t.dialect == dialects[PostgreSQL] {
		_, err := t.exec(ctx, t.sql.ensure, []byte(name), []byte(name), []byte{})
		return err
	}
	if t.dialect.grants {
		if _, err := t.exec(ctx, t.sql.ensureGrant, []byte(name)); err != nil {
			return err
		}
	}
	_, err := t.exec(ctx, t.sql.ensure, []byte(name), []byte{})
	return err
}

// isKept reports whether a transaction has checked or taken the lock on a name that has both rows.
// It may also be another call of isKept, or a grant on MySQL, which lock the row for a moment.
func (t *table) isKept(ctx context.Context, name string) (bool, error) {
	var fence int64
	err := t.queryRow(ctx, t.sql.tryKept, []byte(name)).Scan(&fence)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}

// errRowLocked means that a row of the name is locked: by a transaction (CheckTx or LockTx), or for
// a moment by another grant.
var errRowLocked = errors.New("a transaction has locked the row of the last grant")

// saveState writes the state if nobody has changed the name's row since the state was loaded. It
// reports whether it has written. If grant is true, saveState also writes the fence to the row of
// the last grant. If a transaction has locked that second row, saveState returns errRowLocked.
func (t *table) saveState(ctx context.Context, name string, st *state, grant bool) (bool, error) {
	values, err := st.values()
	if err != nil {
		return false, err
	}
	if !grant || !t.dialect.grants {
		return dbms.Changed(t.exec(ctx, t.sql.save, append(values, []byte(name), st.version)...))
	}
	if t.mariaDB.Load() {
		return t.saveInOne(ctx, name, st, values)
	}
	if t.sql.saveGrant == "" {
		return t.saveBoth(ctx, name, st, values)
	}
	args := append([]any{[]byte(name)}, append(values, st.version)...)
	var locked, saved int
	if err := t.queryRow(ctx, t.sql.saveGrant, args...).Scan(&locked, &saved); err != nil {
		return false, err
	}
	// A row is locked: by a transaction that checks the lock, or for a moment by another grant.
	if locked == 0 {
		return false, t.whyLocked(ctx, name)
	}
	return saved == 1, nil
}

// whyLocked is called when the rows of a name could not be locked. It returns errRowLocked if they
// are locked, and nil if one of them was missing. It makes the row of the last grant if that row is
// missing.
func (t *table) whyLocked(ctx context.Context, name string) error {
	switch st, _, both, err := t.peekBoth(ctx, name); {
	case err != nil || st.version == 0:
		return err
	case !both:
		return t.makeRows(ctx, name)
	}
	return errRowLocked
}

// hasGrant reports whether a name has a row in the table of grants. Call hasGrant before an INSERT
// of that row. The INSERT alone would wait for a transaction that has locked the row.
func (t *table) hasGrant(ctx context.Context, name string) (bool, error) {
	var fence int64
	err := t.queryRow(ctx, t.sql.readGrant, []byte(name)).Scan(&fence)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// saveInOne does the work of saveState for a grant on MariaDB, in one statement. Only on MariaDB
// can one statement write to both tables without waiting for a locked row.
func (t *table) saveInOne(ctx context.Context, name string, st *state, values []any) (bool, error) {
	ok, err := dbms.Changed(t.exec(ctx, noLockWait+t.sql.saveBoth, append(values, int64(st.Fence), []byte(name), st.version)...))
	if err != nil && dbms.Judge(err) == dbms.RowLocked {
		return false, t.awaitWriter(ctx, name)
	}
	if ok || err != nil {
		return ok, err
	}
	there, err := t.hasGrant(ctx, name)
	if !there && err == nil {
		err = t.makeRows(ctx, name)
	}
	return false, err
}

// saveBoth saves the state after a grant on MySQL. A statement of MySQL cannot both write to two
// tables and skip a locked row. So the first statement checks whether a transaction has locked the
// row, and the second statement writes.
//
// saveBoth opens no transaction. If the connection were lost, an open transaction could stay in the
// server and keep the name.
func (t *table) saveBoth(ctx context.Context, name string, st *state, values []any) (bool, error) {
	var fence int64
	switch err := t.queryRow(ctx, t.sql.lockGrant, []byte(name)).Scan(&fence); {
	case errors.Is(err, sql.ErrNoRows):
		return false, t.makeRows(ctx, name)
	case err != nil && dbms.Judge(err) == dbms.RowLocked:
		return false, t.awaitWriter(ctx, name)
	case err != nil:
		return false, err
	}
	ok, err := dbms.Changed(t.exec(ctx, t.sql.saveBoth, append(values, int64(st.Fence), []byte(name), st.version)...))
	if err != nil && dbms.Judge(err) == dbms.RowLocked {
		return false, t.awaitWriter(ctx, name)
	}
	return ok, err
}

// awaitWriter is for MySQL and MariaDB. A grant calls it if the name's row in the table of grants
// is locked. Either a transaction (CheckTx or LockTx) or another grant has locked that row.
//
// Another grant also locks the name's row in the table of locks. awaitWriter waits until the row in
// the table of locks is free. Then it returns errRowLocked.
//
// The other grant may be an earlier statement of this call whose connection was lost. So if the
// wait fails, nobody knows who has the name. awaitWriter then returns the error of the wait.
func (t *table) awaitWriter(ctx context.Context, name string) error {
	var version int64
	err := t.queryRow(ctx, t.sql.awaitWriter, []byte(name)).Scan(&version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return errRowLocked
}
