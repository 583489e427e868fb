package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/padlock-go/padlock/stores/sqlstore"
)

// TestOpeningABusyFile: another process writes to an SQLite file while a store is opened. The store
// tries again until it has made its tables.
func TestOpeningABusyFile(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(1)&_pragma=journal_mode(WAL)&_txlock=immediate")
	noError(t, err)
	defer db.Close()
	writer, err := db.Begin()
	noError(t, err)
	opened := make(chan error, 1)
	go func() {
		s, err := sqlstore.Open(t.Context(), db, sqlstore.SQLite)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("opened while another process wrote: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	noError(t, writer.Commit())
	noError(t, <-opened)
}
