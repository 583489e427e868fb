// Package sqlsession keeps sessions in a table of PostgreSQL, MySQL, MariaDB or
// SQLite, through database/sql and whatever driver the program has.
//
//	store, err := sqlsession.New(db, sqlsession.Postgres)
//	err = store.CreateTable(ctx)
//	sessions, err := session.New(store, session.Locker(locker))
//
// A session is one row. A commit is one UPDATE that asks for the row's version,
// so it needs no transaction; it is right at every isolation level, and what
// the stricter ones break off is run again. Time is the database server's.
//
// A process that makes sessions deletes expired rows every ten minutes, in
// batches, in the background; no request waits for that. [Store.Sweep] deletes
// them at once.
//
// SQLite needs a busy timeout (PRAGMA busy_timeout) where several connections
// write. PostgreSQL must be asked at its primary; a cluster with several
// primaries must replicate synchronously.
package sqlsession

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/session"
)

// A Dialect is what databases say differently.
type Dialect struct {
	name     string
	now      string // milliseconds since 1970, by the server
	numbered bool   // $1 instead of ?
	ignore   [2]string
	sweep    string // deletes one batch of what has expired
	columns  string
	index    string // of the column expires, after the table; "" when columns has it
}

// The databases.
var (
	// Postgres is PostgreSQL 9.5 and later.
	Postgres = Dialect{
		name: "postgres", now: "CAST(extract(epoch from statement_timestamp()) * 1000 AS BIGINT)", numbered: true,
		ignore:  [2]string{"INSERT INTO", " ON CONFLICT (id) DO NOTHING"},
		sweep:   "DELETE FROM {table} WHERE {over} AND id = ANY (ARRAY(SELECT id FROM {table} WHERE {over} LIMIT {batch}))",
		columns: "id VARCHAR(255) PRIMARY KEY, version BIGINT NOT NULL, expires BIGINT NOT NULL, data BYTEA NOT NULL",
		index:   "CREATE INDEX IF NOT EXISTS %s_expires ON %s (expires)",
	}
	// MySQL is MySQL 5.7 and later, and MariaDB 10.2 and later.
	MySQL = Dialect{
		// UTC, for local time has an hour twice in autumn.
		name: "mysql", now: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
		ignore: [2]string{"INSERT IGNORE INTO", ""},
		sweep:  "DELETE FROM {table} WHERE {over} ORDER BY expires LIMIT {batch}",
		columns: "id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, version BIGINT NOT NULL, expires BIGINT NOT NULL, " +
			"data LONGBLOB NOT NULL, INDEX (expires)",
	}
	// SQLite is SQLite 3.24 and later.
	SQLite = Dialect{
		name: "sqlite", now: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
		ignore:  [2]string{"INSERT INTO", " ON CONFLICT (id) DO NOTHING"},
		sweep:   "DELETE FROM {table} WHERE {over} AND id IN (SELECT id FROM {table} WHERE {over} LIMIT {batch})",
		columns: "id TEXT PRIMARY KEY, version INTEGER NOT NULL, expires INTEGER NOT NULL, data BLOB NOT NULL",
		index:   "CREATE INDEX IF NOT EXISTS %s_expires ON %s (expires)",
	}
)

// String names the database.
func (d Dialect) String() string { return d.name }

// DefaultTable is the table's name unless Table gives another.
const DefaultTable = "padlock_sessions"

// Store keeps sessions in one table. It is a session.Store, safe for
// concurrent use. The database stays the caller's.
type Store struct {
	session.Store
	rows *rows
}

// Option configures New.
type Option func(*rows)

// Table names the table: letters, digits and underscores, with a schema before
// a dot.
func Table(name string) Option { return func(r *rows) { r.table = name } }

// New returns a store in db. It makes no query; the error is about the table's
// name.
func New(db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	r := &rows{db: db, d: d, table: DefaultTable}
	for _, o := range opts {
		o(r)
	}
	if !tableName.MatchString(r.table) || d.name == "" {
		return nil, fmt.Errorf("sqlsession: table %q in %q: letters, digits and underscores are allowed, and the dialects of this package", r.table, d.name)
	}
	r.lastSweep.Store(time.Now().UnixNano())
	return &Store{session.FromBlobs(r, session.Packed(), session.Traits{}), r}, nil
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,50}$`)

// Blobs are the rows: for a format of your own, with session.FromBlobs, or
// PHP's, with session.NewPHP.
func (s *Store) Blobs() session.BlobStore { return s.rows }

// Schema are the statements that CreateTable makes.
func (s *Store) Schema() []string {
	r := s.rows
	all := []string{fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", r.table, r.d.columns)}
	if r.d.index != "" {
		_, bare, found := strings.Cut(r.table, ".")
		if !found {
			bare = r.table
		}
		if r.d.name == SQLite.name && found { // there the schema goes with the index
			all = append(all, fmt.Sprintf(r.d.index, r.table, bare))
		} else {
			all = append(all, fmt.Sprintf(r.d.index, bare, r.table))
		}
	}
	return all
}

// CreateTable makes the table if there is none. A program that may not create
// tables has it made from Schema.
func (s *Store) CreateTable(ctx context.Context) error {
	for _, q := range s.Schema() {
		if _, err := s.rows.db.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("sqlsession: create table: %w", err)
		}
	}
	return nil
}

// rows is the table. A blob's tag is its version, which begins anywhere, so
// that a row that was deleted and made again is another.
type rows struct {
	db        *sql.DB
	d         Dialect
	table     string
	lastSweep atomic.Int64
	sweeping  atomic.Bool
}

// live is the condition that a row has not expired.
func (r *rows) live() string { return "(expires = 0 OR expires > " + r.d.now + ")" }

// query fills in table, clock and placeholders.
func (r *rows) query(q string) string {
	q = strings.NewReplacer("{table}", r.table, "{now}", r.d.now, "{live}", r.live(), "{over}", "expires > 0 AND expires <= "+r.d.now,
		"{batch}", strconv.Itoa(sweepBatch)).Replace(q)
	if !r.d.numbered {
		return q
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(q, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		n++
		b.WriteString(part)
	}
	return b.String()
}

// until is the column expires for a lifetime that begins now.
func (r *rows) until(ttl time.Duration) string {
	if ttl <= 0 {
		return "0"
	}
	ms := max(1, (ttl + time.Millisecond - 1).Milliseconds())
	return r.d.now + " + " + strconv.FormatInt(ms, 10)
}

// exec reports whether a row was changed.
func (r *rows) exec(ctx context.Context, q string, args ...any) (bool, error) {
	n, err := r.count(ctx, q, args...)
	return n > 0, err
}

// count runs a statement and returns how many rows it changed. If the database
// undid the statement because it ran into another one, it is run again.
func (r *rows) count(ctx context.Context, q string, args ...any) (int64, error) {
	q = r.query(q)
	for try := 0; ; try++ {
		res, err := r.db.ExecContext(ctx, q, args...)
		if err == nil {
			return res.RowsAffected()
		}
		if !brokenOff(err) || !again(ctx, try) {
			return 0, fmt.Errorf("sqlsession: %w", err)
		}
	}
}

// brokenOff reports whether the database says that it undid a statement
// because it ran into another: a deadlock, or a strict isolation level. The
// standard's code for that, and PostgreSQL's for a deadlock, are had from
// drivers by a method or stand in the text.
func brokenOff(err error) bool {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState() == "40001" || coded.SQLState() == "40P01"
	}
	return strings.Contains(err.Error(), "(40001)")
}

// maxTries bounds how often a statement is run again.
const maxTries = 100

// again waits for a moment, longer each time, unless it was tried often enough.
func again(ctx context.Context, try int) bool {
	if try >= maxTries {
		return false
	}
	t := time.NewTimer(rand.N(time.Duration(1+min(try, 20)) * time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Get implements session.BlobStore.
func (r *rows) Get(ctx context.Context, key string) (session.Blob, error) {
	var b session.Blob
	var version, expires, now int64
	q := r.query("SELECT data, version, expires, {now} FROM {table} WHERE id = ? AND {live}")
	err := r.db.QueryRowContext(ctx, q, key).Scan(&b.Data, &version, &expires, &now)
	for try := 0; err != nil && brokenOff(err) && again(ctx, try); try++ {
		err = r.db.QueryRowContext(ctx, q, key).Scan(&b.Data, &version, &expires, &now)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return b, session.ErrNotFound
	case err != nil:
		return b, fmt.Errorf("%w: sqlsession: %w", session.ErrUnavailable, err)
	}
	b.Tag = strconv.FormatInt(version, 10)
	if expires > 0 {
		b.TTL = max(1, time.Duration(expires-now)*time.Millisecond)
	}
	return b, nil
}

// Swap implements session.BlobStore.
func (r *rows) Swap(ctx context.Context, key string, old *session.Blob, data []byte, ttl time.Duration) (bool, *session.Blob, error) {
	var done bool
	var err error
	if data == nil {
		data = []byte{} // nil would be NULL
	}
	if old == nil {
		done, err = r.insert(ctx, key, data, ttl)
	} else {
		done, err = r.exec(ctx, "UPDATE {table} SET data = ?, version = version + 1, expires = "+r.until(ttl)+" WHERE id = ? AND version = ? AND {live}",
			data, key, tag(old))
	}
	if done || err != nil {
		return done, nil, err
	}
	now, err := r.Get(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		return false, nil, nil
	}
	return false, &now, err
}

// insert makes a row, in the place of one that has expired if there is one.
func (r *rows) insert(ctx context.Context, key string, data []byte, ttl time.Duration) (bool, error) {
	if !plain(key) {
		return false, fmt.Errorf("%w: sqlsession keeps at most %d bytes of printable ASCII, without a space at the end", session.ErrKey, maxKey)
	}
	defer r.sweepNowAndThen()
	version := rand.Int64N(1 << 52)
	done, err := r.exec(ctx, "UPDATE {table} SET data = ?, version = ?, expires = "+r.until(ttl)+" WHERE id = ? AND NOT {live}", data, version, key)
	if done || err != nil {
		return done, err
	}
	return r.exec(ctx, r.d.ignore[0]+" {table} (id, version, expires, data) VALUES (?, ?, "+r.until(ttl)+", ?)"+r.d.ignore[1], key, version, data)
}

// maxKey is the width of the column id.
const maxKey = 255

// plain reports whether all databases keep key as it is and distinguish it from
// others: MySQL's INSERT IGNORE would cut it or put question marks into it.
func plain(key string) bool {
	other := func(c rune) bool { return c < ' ' || c > '~' }
	return len(key) <= maxKey && !strings.ContainsFunc(key, other) && !strings.HasSuffix(key, " ")
}

// tag is the version in a blob that Get returned. Any other blob matches no row.
func tag(b *session.Blob) int64 {
	n, err := strconv.ParseInt(b.Tag, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Remove implements session.BlobStore.
func (r *rows) Remove(ctx context.Context, key string, old *session.Blob) (bool, error) {
	if old == nil {
		return r.exec(ctx, "DELETE FROM {table} WHERE id = ? AND {live}", key)
	}
	return r.exec(ctx, "DELETE FROM {table} WHERE id = ? AND version = ? AND {live}", key, tag(old))
}

// Touch implements session.BlobStore.
func (r *rows) Touch(ctx context.Context, key string, ttl time.Duration) error {
	_, err := r.exec(ctx, "UPDATE {table} SET expires = "+r.until(ttl)+" WHERE id = ? AND {live} AND SUBSTR(data, 1, "+
		strconv.Itoa(len(session.TombstonePrefix))+") <> ?", key, []byte(session.TombstonePrefix))
	return err
}
