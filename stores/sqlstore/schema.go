package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// schemaVersion is the version of the tables that this package reads and writes.
const schemaVersion = 1

// tables holds the qualified and quoted names of the tables.
type tables struct{ locks, grants, meta, runs string }

// Schema returns the statements that create the tables of an engine. They are in the order in which
// they have to run. The parameter schema is the schema of the tables, and "" means the default
// schema.
func Schema(e Engine, schema string) ([]string, error) {
	d := dialects[e]
	if d == nil {
		return nil, fmt.Errorf("%w: there is no engine %v", driver.ErrInvalid, e)
	}
	t, err := tablesIn(e, schema)
	if err != nil {
		return nil, err
	}
	out := []string{
		"CREATE TABLE IF NOT EXISTS " + t.meta + " (setting varchar(64) NOT NULL PRIMARY KEY, value varchar(255) NOT NULL)" + d.suffix,
		"CREATE TABLE IF NOT EXISTS " + t.locks + " (" +
			"name " + d.binary + " NOT NULL PRIMARY KEY, version bigint NOT NULL, fence bigint NOT NULL, " +
			"token " + shortBinary(e) + " NOT NULL, reserved smallint NOT NULL, since bigint NOT NULL, until bigint NOT NULL, " +
			"least bigint NOT NULL, holder " + d.text + " NOT NULL, busy bigint NOT NULL, more " + d.text + " NOT NULL)" + d.suffix,
	}
	if d.grants {
		out = append(out, "CREATE TABLE IF NOT EXISTS "+t.grants+" (name "+d.binary+" NOT NULL PRIMARY KEY, fence bigint NOT NULL, locked bigint NOT NULL)"+d.suffix)
	}
	return append(out, newRecordStatements(d, t).create,
		"INSERT INTO "+t.meta+" (setting, value) VALUES ('schema', '"+strconv.Itoa(schemaVersion)+"')"+d.unlessThere("setting")), nil
}

func shortBinary(e Engine) string {
	if e == MySQL {
		return "varbinary(128)"
	}
	return dialects[e].binary
}

// tablesIn returns the names of the tables, qualified with their schema. Without the schema, the
// search path of PostgreSQL could select different tables for two users, and then both users could
// hold the same name.
func tablesIn(e Engine, schema string) (tables, error) {
	if schema == "" && e == PostgreSQL {
		schema = "public"
	}
	for _, c := range schema {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return tables{}, fmt.Errorf("%w: the schema %q has a character other than letters, digits, _ and -", driver.ErrInvalid, schema)
		}
	}
	quote := `"`
	if e == MySQL {
		quote = "`"
	}
	in := ""
	if schema != "" {
		in = quote + schema + quote + "."
	}
	return tables{in + "padlock_locks", in + "padlock_grants", in + "padlock_meta", in + "padlock_runs"}, nil
}

// prepare checks the version of the tables and reads the store's id. If there are no tables, or a
// statement has missed one, prepare first creates those that do not exist.
func (s *Store) prepare(ctx context.Context, missed bool) error {
	n, err := s.version(ctx)
	if err == nil && (n == 0 || missed && n == schemaVersion) {
		if err = s.makeTables(ctx); err == nil {
			n, err = s.version(ctx)
		}
	}
	switch {
	case err != nil:
		return err
	case n > schemaVersion:
		return s.newerError(n)
	}
	_, err = s.readHome(ctx)
	return err
}

// newerError returns an error for tables of a later version of padlock.
func (s *Store) newerError(version int) error {
	return fmt.Errorf("%w: a newer padlock has made the tables of %s: they have version %d and this padlock knows version %d; install the newest padlock of all programs that share them",
		driver.ErrUnavailable, s.rows.tables.locks, version, schemaVersion)
}

// version returns the version of the tables, or 0 if there are none.
func (s *Store) version(ctx context.Context) (int, error) {
	text, err := s.setting(ctx, "schema")
	if dbms.Judge(err) == dbms.NoTable || errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, s.tableFailure(ctx, s.rows.tables.meta, err)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: the version in %s is not a number", driver.ErrUnavailable, s.rows.tables.meta)
	}
	return n, nil
}

func (s *Store) setting(ctx context.Context, name string) (value string, err error) {
	err = s.rows.db.QueryRowContext(ctx, s.rows.dialect.bind("SELECT value FROM "+s.rows.tables.meta+" WHERE setting = ?"), name).Scan(&value)
	return value, err
}

func (s *Store) makeTables(ctx context.Context) error {
	list, err := Schema(s.engine, s.cfg.schema)
	if err != nil {
		return err
	}
	if err := s.findForeign(ctx); err != nil {
		return err
	}
	for _, text := range list {
		if _, err := s.rows.db.ExecContext(ctx, text); err != nil {
			if madeMeanwhile(err) {
				continue
			}
			return fmt.Errorf("%w: the tables cannot be made; make them with the statements of `padlock schema`: %w", driver.ErrUnavailable, err)
		}
	}
	return nil
}

// findForeign returns an error if a table of another program has the name of one of padlock's. It is
// called before anything is made.
func (s *Store) findForeign(ctx context.Context) error {
	t := s.rows.tables
	for _, own := range [][2]string{
		{t.meta, "setting, value"}, {t.grants, "name, fence, locked"}, {t.runs, "name, id, body, written"},
		{t.locks, "name, version, fence, token, reserved, since, until, least, holder, busy, more"},
	} {
		rows, err := s.rows.db.QueryContext(ctx, "SELECT "+own[1]+" FROM "+own[0]+" WHERE 1 = 0")
		switch {
		case err == nil:
			rows.Close()
		case dbms.Judge(err) != dbms.NoTable:
			return s.tableFailure(ctx, own[0], err)
		}
	}
	var settings int
	err := s.rows.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+t.meta+" WHERE setting <> 'schema'").Scan(&settings)
	if err == nil && settings > 0 { // padlock writes its version first
		if n, err := s.version(ctx); err != nil || n == 0 {
			return cmp.Or(err, s.foreignError(t.meta))
		}
	}
	return nil
}

// tableFailure is the error of a statement that reads a table.
func (s *Store) tableFailure(ctx context.Context, table string, err error) error {
	if dbms.NoColumn(err) {
		return s.foreignError(table)
	}
	return dbms.Failure(ctx, err, false)
}

func (s *Store) foreignError(table string) error {
	return fmt.Errorf("%w: the table %s belongs to another program, and padlock has made nothing: keep padlock's tables in another schema or database (InSchema, or schema=NAME in the URL)", driver.ErrUnavailable, table)
}

// madeMeanwhile reports whether err means that another process was creating the same table at the
// same time. PostgreSQL returns an error then, even for IF NOT EXISTS.
func madeMeanwhile(err error) bool {
	state := dbms.SQLState(err)
	return state == "23505" || state == "42P07" || state == "42710"
}

// readID reads the store's id. The first call for a database makes the id.
func (s *Store) readID(ctx context.Context) (string, error) {
	id, err := s.setting(ctx, "id")
	if errors.Is(err, sql.ErrNoRows) {
		insert := s.rows.dialect.bind("INSERT INTO " + s.rows.tables.meta + " (setting, value) VALUES ('id', ?)" + s.rows.dialect.unlessThere("setting"))
		if _, err := s.rows.db.ExecContext(ctx, insert, rand.Text()); err != nil {
			return "", dbms.Failure(ctx, err, false)
		}
		id, err = s.setting(ctx, "id")
	}
	if err != nil {
		return "", dbms.Failure(ctx, err, false)
	}
	return id, nil
}

// readHome asks for what checkID compares. Open calls it, so that a check of the usual case needs no
// connection of the store.
func (s *Store) readHome(ctx context.Context) (is string, err error) {
	if _, err := s.readID(ctx); err != nil {
		return "", err
	}
	if err := s.rows.db.QueryRowContext(ctx, s.rows.sql.tx.id).Scan(&is); err != nil {
		return "", dbms.Failure(ctx, err, false)
	}
	s.home.Store(&is)
	return is, nil
}
