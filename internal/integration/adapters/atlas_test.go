package adapters

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/gob"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/sqlite"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
)

// revisions are the migrations that were applied, in a table. Atlas's library leaves them to its
// users; only Atlas's command has such a table.
type revisions struct{ db *sql.DB }

func (revisions) Ident() *migrate.TableIdent { return &migrate.TableIdent{Name: "revisions"} }

func (r revisions) ReadRevisions(ctx context.Context) ([]*migrate.Revision, error) {
	rows, err := r.db.QueryContext(ctx, "SELECT body FROM revisions ORDER BY version")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []*migrate.Revision
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		all = append(all, &migrate.Revision{})
		if err := gob.NewDecoder(bytes.NewReader(body)).Decode(all[len(all)-1]); err != nil {
			return nil, err
		}
	}
	return all, rows.Err()
}

func (r revisions) ReadRevision(ctx context.Context, version string) (*migrate.Revision, error) {
	var body []byte
	err := r.db.QueryRowContext(ctx, "SELECT body FROM revisions WHERE version = ?", version).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, migrate.ErrRevisionNotExist
	} else if err != nil {
		return nil, err
	}
	found := &migrate.Revision{}
	return found, gob.NewDecoder(bytes.NewReader(body)).Decode(found)
}

func (r revisions) WriteRevision(ctx context.Context, rev *migrate.Revision) error {
	var body bytes.Buffer
	err := gob.NewEncoder(&body).Encode(rev)
	if err == nil {
		_, err = r.db.ExecContext(ctx, "INSERT OR REPLACE INTO revisions VALUES (?, ?)", rev.Version, body.Bytes())
	}
	return err
}

func (r revisions) DeleteRevision(ctx context.Context, version string) error {
	_, err := r.db.ExecContext(ctx, "DELETE FROM revisions WHERE version = ?", version)
	return err
}

// newExecutor has two migrations.
func newExecutor(db *sql.DB, applied migrate.RevisionReadWriter) (*migrate.Executor, error) {
	d, err := sqlite.Open(db)
	if err != nil {
		return nil, err
	}
	dir := &migrate.MemDir{}
	for name, text := range map[string]string{"1_a.sql": "CREATE TABLE a (x INT);\n", "2_b.sql": "INSERT INTO a VALUES (1);\n"} {
		if err := dir.WriteFile(name, []byte(text)); err != nil {
			return nil, err
		}
	}
	sum, err := dir.Checksum()
	if err == nil {
		err = migrate.WriteSumFile(dir, sum)
	}
	if err != nil {
		return nil, err
	}
	return migrate.NewExecutor(d, dir, applied)
}

// runAtlas is a server that migrates its database with Atlas when it starts.
func runAtlas(p *process) error {
	db, err := database(p.dir)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), "CREATE TABLE IF NOT EXISTS revisions (version TEXT PRIMARY KEY, body BLOB)"); err != nil {
		return err
	}
	m, err := newExecutor(db, revisions{db})
	if err != nil {
		return err
	}
	p.say("ready")
	p.next()
	if err := applyAll(context.Background(), p.locker, m); err != nil {
		return err
	}
	p.say("done")
	return nil
}

// Four servers start at the same time: each migration is applied once, although ExecuteN asks for
// no lock.
func TestAtlasOnFourServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) { migrateOnFourServers(t, "atlas", url, dir) })
}

// noted calls end when the first migration is noted as applied.
type noted struct {
	migrate.NopRevisionReadWriter
	end func(ctx context.Context)
}

func (n noted) WriteRevision(ctx context.Context, r *migrate.Revision) error {
	if r.Version == "1" && r.Applied == 1 {
		n.end(ctx)
	}
	return nil
}

// The lock is lost between two migrations, or the caller gives up: Atlas stops.
func TestAtlasStops(t *testing.T) {
	t.Parallel()
	for _, want := range []error{padlock.ErrLost, context.Canceled} {
		db, err := database(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		l, script := padlocktest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end := sync.OnceFunc(cancel)
		if want == padlock.ErrLost {
			end = sync.OnceFunc(func() { script.Lose("migrations:shop") })
		}
		m, err := newExecutor(db, noted{end: func(ctx context.Context) { end(); <-ctx.Done() }})
		if err != nil {
			t.Fatal(err)
		}
		err = applyAll(ctx, l, m)
		var rows int
		if e := db.QueryRowContext(t.Context(), "SELECT count(*) FROM a").Scan(&rows); e != nil {
			t.Fatal(e)
		}
		if !errors.Is(err, want) || rows != 0 {
			t.Errorf("%v, want %v; the second migration ran: %v", err, want, rows > 0)
		}
	}
}

// The lock of Atlas for SQLite is a file with a time that nobody renews. A second server takes the
// lock of a migration that takes longer, and the first one removes that lock at its end.
func TestTheLockOfAtlas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := database(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	server, err := sqlite.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("padlock-%d-%s", time.Now().UnixNano(), filepath.Base(dir)) // a file in os.TempDir()
	first, err := server.Lock(t.Context(), name, time.Millisecond)                  // Atlas's command says ten seconds
	if err != nil {
		t.Fatal(err)
	}
	second, err := server.Lock(t.Context(), name, time.Hour)
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); {
		second, err = server.Lock(t.Context(), name, time.Hour)
	}
	if err != nil {
		t.Fatalf("the lock of Atlas lasts: %v", err)
	}
	if err := first(); err != nil {
		t.Error(err)
	}
	if _, err := server.Lock(t.Context(), name, time.Hour); err != nil {
		t.Errorf("the lock of Atlas is safe from its predecessor: %v", err)
	}
	if err := second(); err != nil {
		t.Error(err)
	}
}
