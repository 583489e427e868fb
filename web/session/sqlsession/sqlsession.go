// Package sqlsession keeps sessions in a table of PostgreSQL, MySQL, MariaDB or SQLite, through
// database/sql with any driver.
//
// Use it if the processes of a site share a database and no Redis. If there is a Redis too, use
// package redissession instead: it also keeps the values of package stampede.
//
//	store, err := sqlsession.New(db, sqlsession.Postgres)
//	err = store.CreateTable(ctx)
//	sessions, err := session.New(store, session.Locker(locker))
//
// A session is one row. A commit is one UPDATE with a condition on the row's version. So it needs
// no transaction and is right at every isolation level. If a strict isolation level aborts a
// statement, the statement is run again. All times are from the database server's clock.
//
// A process that creates sessions deletes expired rows every ten minutes, in batches, in the
// background. No request waits for that. [Store.Sweep] deletes them at once.
//
// SQLite needs a busy timeout (PRAGMA busy_timeout) if several connections write. With PostgreSQL,
// connect to the primary. A cluster with several primaries must replicate synchronously.
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

	"github.com/padlock-go/padlock/internal/sqlpool"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// A Dialect is a kind of database, one of the constants below.
type Dialect uint8

// The kinds of databases.
const (
	// Postgres is PostgreSQL 9.5 and later.
	Postgres Dialect = iota + 1
	// MySQL is MySQL 5.7 and later, and MariaDB 10.2 and later.
	MySQL
	// SQLite is SQLite 3.24 and later.
	SQLite
)

// String names the database.
func (d Dialect) String() string {
	if l, ok := languages[d]; ok {
		return l.name
	}
	return fmt.Sprintf("Dialect(%d)", uint8(d))
}

// DefaultTable is the table's name unless Table gives another.
const DefaultTable = "padlock_sessions"

// Store keeps sessions in one table. It is a sessionstore.IndexedStore, safe for concurrent use. It
// never closes the database.
type Store struct {
	sessionstore.IndexedStore
	rows *rows
}

// Option configures New.
type Option func(*rows)

// Table sets the table's name: at most 51 letters, digits and underscores, the first one no digit.
// A schema of at most 63 such characters and a dot may come before it. For any other text, New
// returns an error. The default is DefaultTable.
func Table(name string) Option { return func(r *rows) { r.table = name } }

// New returns a store in db. It makes no query. It returns an error if the table's name is invalid.
func New(db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	r := &rows{db: &sqlpool.Pool{DB: db, SQLite: d == SQLite}, d: languages[d], table: DefaultTable}
	for _, o := range opts {
		if o != nil {
			o(r)
		}
	}
	switch {
	case db == nil:
		return nil, errors.New("sqlsession: New: the database is nil")
	case r.d.name == "":
		return nil, fmt.Errorf("sqlsession: New: there is no dialect %v; there are Postgres, MySQL and SQLite", d)
	case !tableName.MatchString(r.table):
		return nil, fmt.Errorf("sqlsession: New: table %q: letters, digits and underscores are allowed, and one dot", r.table)
	}
	r.lastSweep.Store(time.Now().UnixNano())
	return &Store{sessionstore.FromBlobs(r, sessionstore.Packed(), sessionstore.Traits{}), r}, nil
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,50}$`)

// Blobs returns the rows as a BlobStore. Use it for a format of your own with
// sessionstore.FromBlobs, or for PHP's with phpsession.New.
func (s *Store) Blobs() sessionstore.BlobStore { return s.rows }

// Schema returns the statements that CreateTable runs.
func (s *Store) Schema() []string {
	r := s.rows
	all := []string{fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", r.table, r.d.columns)}
	if r.d.index != "" {
		_, bare, found := strings.Cut(r.table, ".")
		if !found {
			bare = r.table
		}
		if r.d.name == "sqlite" && found { // in SQLite, the schema is part of the index's name and not of the table's
			all = append(all, fmt.Sprintf(r.d.index, r.table, bare))
		} else {
			all = append(all, fmt.Sprintf(r.d.index, bare, r.table))
		}
	}
	return all
}

// CreateTable creates the table if it does not exist. If a table of another program has that name,
// CreateTable leaves it alone and returns an error. Several processes may call it at the same time. If the program may not create tables, an administrator can run the statements of Schema.
func (s *Store) CreateTable(ctx context.Context) error {
	for i, q := range s.Schema() {
		if err := s.rows.create(ctx, q); err != nil {
			return fmt.Errorf("sqlsession: create table: %w", err)
		}
		if i == 0 {
			if err := s.rows.checkColumns(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkColumns returns an error if the table is another program's.
func (r *rows) checkColumns(ctx context.Context) error {
	rows, err := r.db.QueryContext(ctx, r.query("SELECT id, version, expires, data FROM {table} WHERE 1 = 0"))
	if err != nil {
		return fmt.Errorf("sqlsession: the table %s cannot be read as one of padlock's sessions; if it is another program's, choose another name with Table: %w", r.table, err)
	}
	return rows.Close()
}

// rows implements sessionstore.BlobStore with the rows of the table. The Tag of a Blob is the
// version of its row. Each version is random, so that a row which was deleted and made again, or
// which a backup has brought back and others have changed again, has another version.
type rows struct {
	db        *sqlpool.Pool
	d         language
	table     string
	lastSweep atomic.Int64
	sweeping  atomic.Bool
}

// r.until returns the SQL expression for the column "expires" of a row that lives for ttl from now.
func (r *rows) until(ttl time.Duration) string {
	if ttl <= 0 {
		return "0"
	}
	const longest = 1<<63 - 1
	ms := min((ttl-1).Milliseconds()+1, time.Duration(longest).Milliseconds()) // rounded up
	return r.d.now + " + " + strconv.FormatInt(ms, 10)
}

// exec runs a statement and reports whether it changed a row.
func (r *rows) exec(ctx context.Context, q string, args ...any) (bool, error) {
	n, err := r.count(ctx, q, args...)
	return n > 0, err
}

// maxTries bounds how often a statement is run again.
const maxTries = 100

// Get implements sessionstore.BlobStore.
func (r *rows) Get(ctx context.Context, key string) (sessionstore.Blob, error) {
	var b sessionstore.Blob
	var version, expires, now int64
	q := r.query("SELECT data, version, expires, {now} FROM {table} WHERE id = ? AND {live}")
	err := r.db.QueryRowContext(ctx, q, key).Scan(&b.Data, &version, &expires, &now)
	for try := 0; err != nil && brokenOff(err) && waitToRetry(ctx, try); try++ {
		err = r.db.QueryRowContext(ctx, q, key).Scan(&b.Data, &version, &expires, &now)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return b, sessionstore.ErrNotFound
	case err != nil:
		return b, fmt.Errorf("%w: sqlsession: %w", sessionstore.ErrUnavailable, err)
	}
	b.Tag = strconv.FormatInt(version, 10)
	if expires > 0 {
		b.TTL = max(1, time.Duration(expires-now)*time.Millisecond)
	}
	return b, nil
}

// Swap implements sessionstore.BlobStore.
func (r *rows) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	var done bool
	var err error
	if data == nil {
		data = []byte{} // nil would become NULL
	}
	if old == nil {
		done, err = r.insert(ctx, key, data, ttl)
	} else {
		done, err = r.exec(ctx, "UPDATE {table} SET data = ?, version = ?, expires = "+r.until(ttl)+" WHERE id = ? AND version = ? AND {live}",
			data, newVersion(), key, tag(old))
	}
	if done || err != nil {
		return done, nil, err
	}
	now, err := r.Get(ctx, key)
	if errors.Is(err, sessionstore.ErrNotFound) {
		return false, nil, nil
	}
	return false, &now, err
}

// insert makes a row. If there is an expired one at the key, insert replaces it.
func (r *rows) insert(ctx context.Context, key string, data []byte, ttl time.Duration) (bool, error) {
	if !plain(key) {
		return false, fmt.Errorf("%w: sqlsession keeps at most %d bytes of printable ASCII, without a space at the end", sessionstore.ErrKey, maxKey)
	}
	defer r.sweepNowAndThen()
	version := newVersion()
	done, err := r.exec(ctx, "UPDATE {table} SET data = ?, version = ?, expires = "+r.until(ttl)+" WHERE id = ? AND NOT {live}", data, version, key)
	if done || err != nil {
		return done, err
	}
	return r.exec(ctx, r.d.ignore[0]+" {table} (id, version, expires, data) VALUES (?, ?, "+r.until(ttl)+", ?)"+r.d.ignore[1], key, version, data)
}

// newVersion returns a version that no row had before.
func newVersion() int64 { return rand.Int64N(1 << 52) }

// maxKey is the width of the column id.
const maxKey = 255

// plain reports whether every database stores the key as it is, and never takes it for another key.
// For example, MySQL's INSERT IGNORE would shorten some keys, or replace characters by question
// marks.
func plain(key string) bool {
	other := func(c rune) bool { return c < ' ' || c > '~' }
	return len(key) <= maxKey && !strings.ContainsFunc(key, other) && !strings.HasSuffix(key, " ")
}

// tag returns the version in a blob that Get returned. For any other blob it returns a version that
// no row has.
func tag(b *sessionstore.Blob) int64 {
	n, err := strconv.ParseInt(b.Tag, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Remove implements sessionstore.BlobStore.
func (r *rows) Remove(ctx context.Context, key string, old *sessionstore.Blob) (bool, error) {
	if old == nil {
		return r.exec(ctx, "DELETE FROM {table} WHERE id = ? AND {live}", key)
	}
	return r.exec(ctx, "DELETE FROM {table} WHERE id = ? AND version = ? AND {live}", key, tag(old))
}

// Touch implements sessionstore.BlobStore.
func (r *rows) Touch(ctx context.Context, key string, ttl time.Duration) error {
	_, err := r.exec(ctx, "UPDATE {table} SET expires = "+r.until(ttl)+" WHERE id = ? AND {live} AND SUBSTR(data, 1, "+
		strconv.Itoa(len(sessionstore.TombstonePrefix))+") <> ?", key, []byte(sessionstore.TombstonePrefix))
	return err
}
