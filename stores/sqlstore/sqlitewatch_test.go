package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A file answers the two pragmas that a fileWatch asks.
type file struct {
	mode    string
	version atomic.Int64
	asked   atomic.Int64
	broken  atomic.Bool
}

func (f *file) Connect(context.Context) (driver.Conn, error) { return fileConn{f}, nil }
func (f *file) Driver() driver.Driver                        { return nil }

type fileConn struct{ f *file }

func (c fileConn) Prepare(query string) (driver.Stmt, error) { return fileStmt{c.f, query}, nil }
func (c fileConn) Close() error                              { return nil }
func (c fileConn) Begin() (driver.Tx, error)                 { return nil, errors.ErrUnsupported }

type fileStmt struct {
	f     *file
	query string
}

func (s fileStmt) Close() error                               { return nil }
func (s fileStmt) NumInput() int                              { return 0 }
func (s fileStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errors.ErrUnsupported }

func (s fileStmt) Query([]driver.Value) (driver.Rows, error) {
	if s.f.broken.Load() {
		return nil, errors.New("the disk is gone")
	}
	if strings.Contains(s.query, "journal_mode") {
		return &fileRow{value: s.f.mode}, nil
	}
	if strings.Contains(s.query, "database_list") { // it has no path
		return &fileRow{value: ""}, nil
	}
	s.f.asked.Add(1)
	return &fileRow{value: s.f.version.Load()}, nil
}

type fileRow struct {
	value any
	done  bool
}

func (r *fileRow) Columns() []string { return []string{"value"} }
func (r *fileRow) Close() error      { return nil }

func (r *fileRow) Next(dest []driver.Value) error {
	if r.done {
		return io.EOF
	}
	r.done, dest[0] = true, r.value
	return nil
}

// wasWoken reports whether a waiter has been woken since the last call.
func wasWoken(one *localWaiter) bool {
	select {
	case <-one.look:
		return true
	default:
		return false
	}
}

// passTime advances the clock of a bubble of synctest.
func passTime(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// watching runs f with a fileWatch and two waiters: the first and the fifth of a queue.
func watching(t *testing.T, disk *file, f func(s *Store, first, fifth *localWaiter)) {
	synctest.Test(t, func(t *testing.T) {
		db := sql.OpenDB(disk)
		defer db.Close()
		s, err := Open(t.Context(), db, SQLite, Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		defer s.wantNotifications()()
		first, remove := s.local.add("name", "first")
		defer remove()
		fifth, remove := s.local.add("name", "fifth")
		defer remove()
		s.local.noteAhead(fifth, 4)
		synctest.Wait()
		f(s, first, fifth)
	})
}

func TestFileWatch(t *testing.T) {
	disk := &file{mode: "wal"}
	watching(t, disk, func(s *Store, first, fifth *localWaiter) {
		if !s.local.watched() || s.local.pushChannel() != "" {
			t.Fatal("the file is not watched, or places have a channel")
		}
		passTime(time.Second)
		wasWoken(first)
		wasWoken(fifth)
		passTime(time.Second)
		if wasWoken(first) || wasWoken(fifth) {
			t.Error("waiters look without a change")
		}
		disk.version.Add(1)
		passTime(nearPause)
		if !wasWoken(first) || !wasWoken(fifth) {
			t.Error("waiters do not look after a change")
		}
		disk.version.Add(1)
		passTime(nearPause)
		if !wasWoken(first) || wasWoken(fifth) {
			t.Error("want that the first looks again, and the fifth not yet")
		}
		passTime(4 * restTime)
		if wasWoken(first) || !wasWoken(fifth) {
			t.Error("want that the fifth looks later, and the first not again")
		}
	})
	if n := disk.asked.Load(); n > 420 {
		t.Errorf("asked %d times in two seconds", n)
	}
}

// If nobody is near the head of a queue, the watch asks less often.
func TestFarFromTheHead(t *testing.T) {
	disk := &file{mode: "wal"}
	watching(t, disk, func(s *Store, first, fifth *localWaiter) {
		s.local.noteAhead(first, 9)
		s.local.noteAhead(fifth, 20)
		passTime(time.Second)
	})
	if n := disk.asked.Load(); n > 30 {
		t.Errorf("asked %d times in a second", n)
	}
}

// A connection that fails is replaced, and waiters poll until then.
func TestFileWatchFails(t *testing.T) {
	disk := &file{mode: "wal"}
	watching(t, disk, func(s *Store, first, _ *localWaiter) {
		disk.broken.Store(true)
		passTime(time.Second)
		if s.local.watched() || !wasWoken(first) {
			t.Error("the watch is lost and the waiters do not poll")
		}
		disk.broken.Store(false)
		passTime(10 * time.Second)
		if !s.local.watched() {
			t.Error("no other connection watches")
		}
	})
}

// The watch needs a write-ahead log, and a pool that can spare a connection.
func TestNoFileWatch(t *testing.T) {
	watching(t, &file{mode: "delete"}, func(s *Store, _, _ *localWaiter) {
		passTime(time.Second)
		if s.local.watched() {
			t.Error("a file without a write-ahead log is watched")
		}
	})
	db := sql.OpenDB(&file{mode: "wal"})
	defer db.Close()
	for most, want := range map[int]bool{0: true, 1: false, 2: false, 3: true} {
		db.SetMaxOpenConns(most)
		if canWatch(SQLite, db) != want || canWatch(PostgreSQL, db) {
			t.Errorf("a pool of %d", most)
		}
	}
}
