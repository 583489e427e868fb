package restored

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

// TestSessionOfALostTime restores a table of sessions after a request has read a row. Then another
// request writes, so the row has been written as often as before. The write of the first request
// must be refused, since it belongs to what was lost. A session that was destroyed is back.
func TestSessionOfALostTime(t *testing.T) {
	t.Parallel()
	file, kept := filepath.Join(t.TempDir(), "sessions.db"), t.TempDir()+"/copy.db"
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlsession.New(db, sqlsession.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	blobs := s.Blobs()
	swap := func(key string, old *sessionstore.Blob, data string) bool {
		done, _, err := blobs.Swap(t.Context(), key, old, []byte(data), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	get := func(key string) *sessionstore.Blob {
		b, err := blobs.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return &b
	}
	swap("cart", nil, "empty")
	swap("left", nil, "logged in")
	run(t, "sqlite3", file, ".backup "+kept)
	swap("cart", get("cart"), "a book")
	lost := get("cart")
	if _, err := blobs.Remove(t.Context(), "left", nil); err != nil {
		t.Fatal(err)
	}
	run(t, "sqlite3", file, ".restore "+kept)

	if !swap("cart", get("cart"), "a lamp") {
		t.Fatal("a request after the restart cannot write")
	}
	if swap("cart", lost, "a book and a pen") {
		t.Error("a write that is based on a lost one took effect")
	}
	if got := get("left").Data; string(got) != "logged in" {
		t.Errorf("the session that was destroyed is %q", got)
	}
}
