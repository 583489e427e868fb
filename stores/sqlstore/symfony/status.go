package symfony

import (
	"context"
	"fmt"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Status implements driver.Reporter: it asks the server for the settings that matter for locks, and
// looks for rows that a program with the other layout has written.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	ctx, done, err := s.calls.Enter(ctx, dbms.Bound)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := dbms.Settings(ctx, s.db, s.engine.String())
	if err != nil {
		return nil, err
	}
	ids, err := s.ids(ctx)
	rows := driver.Finding{Name: "layout", Value: driver.Unknown}
	switch {
	case dbms.Judge(err) == dbms.NoTable:
		rows.Value = s.layout.String() + ", no table yet"
	case err == nil:
		rows = s.compare(ids)
	}
	found = append(found, rows)
	switch s.engine {
	case sqlstore.PostgreSQL:
		found = append(found, s.tables(ctx))
	case sqlstore.MySQL:
		found = append(found, s.collation(ctx), s.timeZone(ctx))
	}
	return found, nil
}

// ids returns the stored names of all rows, including those of expired leases.
func (s *Store) ids(ctx context.Context) (ids []string, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT "+s.cfg.id+" FROM "+s.cfg.table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// compare looks for rows of the other layout. If a name is in the table in both layouts, two
// holders may have it at the same time.
func (s *Store) compare(ids []string) driver.Finding {
	plain, hash := 0, map[string]bool{}
	for _, id := range ids {
		if isHash(id) {
			hash[id] = true
		} else {
			plain++
		}
	}
	f := driver.Finding{Name: "layout", Value: fmt.Sprintf("%v; %d plain and %d hashed names in the table", s.layout, plain, len(hash))}
	for _, id := range ids {
		if hash[hashed(id)] {
			f.Advice = fmt.Sprintf("the name %.80q is there both plain and hashed: programs with both layouts use the table; give all of them Symfony 7.4 or later and layout=symfony, or all of them an older one and layout=symfony73", id)
			return f
		}
	}
	switch {
	case s.layout == Symfony && len(hash) > 0:
		f.Advice = "hashed names are those of 64 bytes and more, or a program with Symfony 7.3 or older uses the table; such a program needs layout=symfony73 everywhere"
	case s.layout == Symfony73 && plain > 0:
		f.Advice = "a program with Symfony 7.4 or later, or with layout=symfony, uses the table; then every program needs layout=symfony"
	}
	return f
}

// isHash reports whether an id is a SHA-256 in hexadecimal digits.
func isHash(id string) bool {
	return len(id) == minHashed && strings.Trim(id, "0123456789abcdef") == ""
}

// tables finds out whether users with different search paths would use different tables.
func (s *Store) tables(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "table", Value: s.cfg.table}
	if strings.Contains(s.cfg.table, ".") {
		return f
	}
	n, err := dbms.Ask(ctx, s.db, "SELECT string_agg(schemaname || '.' || tablename, ', ' ORDER BY schemaname) FROM pg_tables WHERE tablename = '"+strings.ToLower(s.cfg.table)+"'")
	switch {
	case err != nil:
		f.Value = driver.Unknown
	case n == "":
	default:
		f.Value = n
		if strings.Contains(n, ",") {
			f.Advice = "users with different search paths use different tables, and then a name has two holders; name one of them, here with db_table=SCHEMA." + s.cfg.table + " and in PHP with the option db_table"
		}
	}
	return f
}

// collation finds out whether names that differ only in the case of letters share a lock.
func (s *Store) collation(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "collation", Value: driver.Unknown}
	schema, table, found := strings.Cut(s.cfg.table, ".")
	if !found {
		schema, table = "", schema
	}
	var value string
	err := s.db.QueryRowContext(ctx, "SELECT collation_name FROM information_schema.columns WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) "+
		"AND table_name = ? AND column_name = ?", schema, table, s.cfg.id).Scan(&value)
	if err != nil {
		return f
	}
	f.Value = value
	if s.layout == Symfony && !strings.HasSuffix(value, "_bin") {
		f.Advice = "names that differ only in the case of letters, or in accents, share a lock; while no program runs: ALTER TABLE " + s.cfg.table + " CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
	}
	return f
}

// timeZone finds out whether PHP may read a wrong time in one hour of the year. Newer versions of
// PHP read the server's local time and convert it. In the hour before the end of summer time, the
// result may be an hour too late.
func (s *Store) timeZone(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "time_zone", Value: driver.Unknown}
	zone, err := dbms.Ask(ctx, s.db, "SELECT IF(@@global.time_zone = 'SYSTEM', @@system_time_zone, @@global.time_zone)")
	if err != nil {
		return f
	}
	f.Value = zone
	if !strings.HasPrefix(zone, "+") && !strings.HasPrefix(zone, "-") && zone != "UTC" && zone != "GMT" {
		f.Advice = "in the hour before summer time ends, the clock of Symfony 6.4.24, 7.2.9, 7.3.2 and later is an hour ahead, and PHP takes locks that others hold; set default-time-zone = '+00:00' on the server"
	}
	return f
}
