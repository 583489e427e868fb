package symfony

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
)

// now contains the SQL with which Symfony 7.4 reads the server's clock, in seconds.
var now = map[sqlstore.Engine]string{
	sqlstore.PostgreSQL: "CAST(EXTRACT(epoch FROM NOW()) AS DOUBLE PRECISION)",
	sqlstore.MySQL:      "UNIX_TIMESTAMP(NOW(6))",
	sqlstore.SQLite:     "(julianday('now') - 2440587.5) * 86400.0",
}

// sql fills in the engine's clock and placeholders.
func (d database) sql(query string) string {
	query = strings.ReplaceAll(query, "{now}", now[d.opener.Engine])
	if d.opener.Engine != sqlstore.PostgreSQL {
		return query
	}
	for i := '1'; strings.Contains(query, "?"); i++ {
		query = strings.Replace(query, "?", "$"+string(i), 1)
	}
	return query
}

func sha256Hex(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// A symfony74 carries out the statements of Symfony 7.4. Debian has no such version, so this format
// stands for it.
type symfony74 struct {
	t     *testing.T
	d     database
	db    *sql.DB
	table string
}

// id is the name as Symfony 7.4 stores it.
func (s *symfony74) id(name string) string {
	if len(name) < 64 {
		return name
	}
	return sha256Hex(name)
}

func (s *symfony74) exec(query string, args ...any) bool {
	s.t.Helper()
	res, err := s.db.Exec(s.d.sql(strings.ReplaceAll(query, "{table}", s.table)), args...)
	if err != nil {
		return false
	}
	n, err := res.RowsAffected()
	if err != nil {
		s.t.Fatal(err)
	}
	return n > 0
}

// acquire takes a name with a lease of that many seconds. It reports whether the name was free.
func (s *symfony74) acquire(name, token, seconds string) bool {
	s.t.Helper()
	return s.exec("INSERT INTO {table} (key_id, key_token, key_expiration) VALUES (?, ?, {now} + "+seconds+")", s.id(name), token) ||
		s.refresh(name, token, seconds)
}

func (s *symfony74) refresh(name, token, seconds string) bool {
	s.t.Helper()
	return s.exec("UPDATE {table} SET key_expiration = {now} + "+seconds+", key_token = ? WHERE key_id = ? AND (key_token = ? OR key_expiration <= {now})", token, s.id(name), token)
}

func (s *symfony74) release(name, token string) bool {
	s.t.Helper()
	return s.exec("DELETE FROM {table} WHERE key_id = ? AND key_token = ?", s.id(name), token)
}

// newerFormat: padlock and the statements of Symfony 7.4 exclude each other.
func newerFormat(t *testing.T, d database) {
	table := "newer"
	s := d.must(t, "symfony", table)
	php := &symfony74{t, d, d.raw(t), table}
	for _, name := range []string{"report/42:daily run", "é", strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("é", 40)} {
		token := hold(t, s, name)
		if php.acquire(name, newToken(), "300") {
			t.Errorf("PHP got %q, which padlock holds", name)
		}
		if !php.refresh(name, token, "600.5") || !php.release(name, token) {
			t.Errorf("PHP cannot use padlock's token of %q", name)
		}
		if _, err := s.Extend(t.Context(), name, token, 0); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Extend after PHP's release of %q: %v", name, err)
		}
		token = newToken()
		if !php.acquire(name, token, "300.7") {
			t.Errorf("PHP did not get %q, which is free", name)
		}
		refused(t, s, name)
		if g, err := s.Extend(t.Context(), name, token, time.Hour); err != nil || g.TTL < time.Hour {
			t.Errorf("Extend of PHP's token of %q: %+v, %v", name, g, err)
		}
		if out, err := s.Release(t.Context(), name, token, 0); out != driver.OutcomeReleased || err != nil {
			t.Errorf("Release of PHP's token of %q: %v, %v", name, out, err)
		}
	}
	php.acquire("brief", newToken(), "1.5") // a lease that ends between two seconds, on SQLite
	eventually(t, "a lease of PHP's ends", func() bool {
		_, err := s.Acquire(t.Context(), driver.Request{Name: "brief", Token: driver.TokenOf(newToken()), TTL: time.Minute})
		return err == nil
	})
}

func refused(t *testing.T, s driver.Store, name string) *driver.HeldError {
	t.Helper()
	_, err := s.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf(newToken()), TTL: time.Minute})
	safety.Refused(t, err, name)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire of %q, want a HeldError: %v", name, err)
	}
	return held
}

// eventually asks again until the answer is yes.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// advice returns what Status says about a fact.
func advice(t *testing.T, s *symfony.Store, name string) string {
	t.Helper()
	list, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if f.Name == name {
			return f.Advice
		}
	}
	t.Fatalf("Status says nothing about the %s: %+v", name, list)
	return ""
}

// rowsOfTheOtherLayout checks that Status reports rows of the other layout.
func rowsOfTheOtherLayout(t *testing.T, d database) {
	newer, older := d.must(t, "symfony", "mixed"), d.must(t, "symfony73", "mixed")
	advice := func(s *symfony.Store) string { t.Helper(); return advice(t, s, "layout") }
	if a, b := advice(newer), advice(older); a+b != "" {
		t.Errorf("an empty table: %q, %q", a, b)
	}
	hold(t, older, "job")
	if a := advice(newer); !strings.Contains(a, "Symfony 7.3 or older") {
		t.Errorf("layout=symfony, with a hashed name in the table: %q", a)
	}
	if a := advice(older); a != "" {
		t.Errorf("layout=symfony73, with a hashed name in the table: %q", a)
	}
	hold(t, newer, "other")
	if a := advice(older); !strings.Contains(a, "Symfony 7.4 or later") {
		t.Errorf("layout=symfony73, with a plain name in the table: %q", a)
	}
	hold(t, newer, "job") // two holders of one name
	for _, s := range []*symfony.Store{newer, older} {
		if a := advice(s); !strings.Contains(a, `"job" is there both plain and hashed`) {
			t.Errorf("%v, with a name in both layouts: %q", s, a)
		}
	}
}

// oddTables: tables that were not made as PdoStore makes them.
func oddTables(t *testing.T, d database) {
	db := d.raw(t)
	run := func(query string) {
		t.Helper()
		if _, err := db.Exec(query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	run("CREATE TABLE nokey (key_id VARCHAR(64) NOT NULL, key_token VARCHAR(44) NOT NULL, key_expiration INTEGER NOT NULL)")
	s, err := d.open(t.Context(), "symfony", "nokey", symfony.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Acquire(t.Context(), driver.Request{Name: "job", Token: driver.TokenOf(newToken()), TTL: time.Minute}); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Acquire in a table without a primary key: %v", err)
	}
	run("CREATE TABLE own (i VARCHAR(64) PRIMARY KEY, k VARCHAR(44), e INTEGER)")
	hold(t, d.must(t, "symfony", "own", symfony.Columns("i", "k", "e")), "job")
	var token string
	if err := db.QueryRow("SELECT k FROM own WHERE i = 'job'").Scan(&token); err != nil || len(token) != 44 {
		t.Errorf("the row of the hold: token %q, %v", token, err)
	}
	run("UPDATE own SET e = NULL")
	if held := refused(t, d.must(t, "symfony", "own", symfony.Columns("i", "k", "e")), "job"); !held.Until.IsZero() {
		t.Errorf("a lease that never ends: %+v", held)
	}
	if d.opener.Engine == sqlstore.MySQL {
		mysqlTexts(t, d, run)
	}
}

// oldRows: rows that expired long ago are removed, and no others.
func oldRows(t *testing.T, d database) {
	first, err := d.open(t.Context(), "symfony", "pruned")
	if err != nil {
		t.Fatal(err)
	}
	hold(t, first, "live") // this may begin a sweep
	first.Close()          // and this waits for its end
	s, db := d.must(t, "symfony", "pruned"), d.raw(t)
	for id, end := range map[string]string{"old": "- 7200", "older": "- 90000", "lapsed": "- 60", "theirs": "+ 60"} {
		if _, err := db.Exec(d.sql("INSERT INTO pruned (key_id, key_token, key_expiration) VALUES (?, 'token', {now} "+end+")"), id); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Prune(t.Context()); n != 2 || err != nil {
		t.Errorf("Prune: %d, %v", n, err)
	}
	var left int
	if err := db.QueryRow("SELECT COUNT(*) FROM pruned WHERE key_id IN ('live', 'lapsed', 'theirs')").Scan(&left); err != nil || left != 3 {
		t.Errorf("%d of 3 rows are left, %v", left, err)
	}
}

// mysqlTexts: MySQL compares texts by the collation of the table.
func mysqlTexts(t *testing.T, d database, run func(string)) {
	s := d.must(t, "symfony", "texts")
	if _, err := s.Acquire(t.Context(), driver.Request{Name: "job ", Token: driver.TokenOf(newToken()), TTL: time.Minute}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a name with a space at its end: %v", err)
	}
	run("CREATE TABLE folded (key_id VARCHAR(64) NOT NULL PRIMARY KEY, key_token VARCHAR(44) NOT NULL, key_expiration INT UNSIGNED NOT NULL) CHARACTER SET utf8mb3 COLLATE utf8mb3_unicode_ci")
	s = d.must(t, "symfony", "folded")
	if _, err := s.Acquire(t.Context(), driver.Request{Name: "Job", Token: driver.TokenOf("token"), TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	refused(t, s, "job") // as for PHP
	if out, err := s.Release(t.Context(), "Job", "TOKEN", 0); out != driver.OutcomeGone || err != nil {
		t.Errorf("Release with a token that differs in the case of letters: %v, %v", out, err)
	}
	if out, err := s.Release(t.Context(), "Job", "token", 0); out != driver.OutcomeReleased || err != nil {
		t.Errorf("Release: %v, %v", out, err)
	}
	for name, want := range map[string]string{"collation": "utf8mb4_bin", "time_zone": "summer time"} { // the server is in Berlin
		if a := advice(t, s, name); !strings.Contains(a, want) {
			t.Errorf("Status about the %s: %q", name, a)
		}
	}
}

// lateStatement: a statement waits for a row, its caller gives up and releases the token. The name
// becomes free, even if the server carries the statement out afterwards.
func lateStatement(t *testing.T, d database) {
	if d.opener.Engine == sqlstore.SQLite {
		return // a statement of SQLite ends with its caller
	}
	s, other := d.must(t, "symfony", "late"), d.must(t, "symfony", "late")
	for what, query := range map[string]string{
		"a row that is being made":    "INSERT INTO late (key_id, key_token, key_expiration) VALUES ('a row that is being made', 'php', {now} + 300)",
		"a row that is being removed": "DELETE FROM late WHERE key_id = 'a row that is being removed'",
	} {
		if strings.HasPrefix(query, "DELETE") {
			hold(t, other, what)
		}
		tx, err := d.raw(t).Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(d.sql(query)); err != nil {
			t.Fatal(err)
		}
		token := newToken()
		eventually(t, what+": a statement waits", func() bool { // a busy machine may not have sent it in time
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			g, err := s.Acquire(ctx, driver.Request{Name: what, Token: driver.TokenOf(token), TTL: time.Hour})
			if err == nil {
				t.Errorf("%s: granted: %+v", what, g)
			}
			return err == nil || errors.Is(err, driver.ErrUncertain)
		})
		released := make(chan error, 1)
		go func() {
			var err error
			for range 10 {
				if _, err = s.Release(t.Context(), what, token, 0); err == nil {
					break
				}
			}
			released <- err
		}()
		finish := tx.Commit
		if strings.HasPrefix(query, "INSERT") {
			finish = tx.Rollback
		}
		if err := finish(); err != nil {
			t.Fatal(err)
		}
		if err := <-released; err != nil {
			t.Errorf("%s: Release: %v", what, err)
		}
		free := func() bool {
			st, err := other.Inspect(t.Context(), what)
			return err == nil && len(st.Holds) == 0
		}
		eventually(t, what+": the name becomes free", free)
		if _, err := d.raw(t).Exec(d.sql("INSERT INTO late (key_id, key_token, key_expiration) VALUES (?, ?, {now} + 3600)"), what, token); err != nil {
			t.Fatal(err)
		}
		eventually(t, what+": the name becomes free if the statement arrives only now", free)
	}
}
