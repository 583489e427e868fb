package txtest

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// closes means that the Locker of process a is closed, as at the end of a program.
const closes ending = "Close"

// A moment is when the transaction of process b takes its snapshot.
type moment string

const (
	reads   moment = "reads before"
	refused moment = "LockTx was refused before"
	another moment = "LockTx of another name before"
	atOnce  moment = "LockTx during the commit"
)

// RunSnapshots tests what a transaction sees after LockTx: all that transactions have committed
// which had checked an earlier lock, even if that lock ended before they did.
func RunSnapshots(t *testing.T, h Harness) {
	a, b := h.Start(t), h.Start(t)
	if _, err := a.DB.ExecContext(t.Context(), "CREATE TABLE notes (name varchar(200) NOT NULL, author varchar(9) NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	moments, endings := []moment{reads, refused, another, atOnce}, []ending{leaseEnds, release, evict, closes}
	if h.OneWriter {
		moments, endings = moments[:1], endings[:1]
	}
	for _, level := range h.Levels {
		for _, first := range []sql.IsolationLevel{sql.LevelDefault, level} {
			for _, end := range endings {
				for _, at := range moments {
					t.Run(fmt.Sprintf("%s after %s/%s/%s", level, first, end, at), func(t *testing.T) {
						s := &snapshot{meeting: meeting{h: &h, t: t, a: a, b: b, end: end}, first: first, second: level, at: at}
						s.run()
					})
				}
			}
		}
	}
}

// A snapshot is one case:
//
//  1. Process a acquires the name, checks the lock in a transaction, and writes a note there.
//  2. The lock ends.
//  3. Process b begins a transaction, and takes its snapshot.
//  4. The transaction of process a commits.
//  5. Process b calls LockTx. If that succeeds, its transaction has to see the note.
//  6. A new transaction of process b does the same, and LockTx has to succeed.
type snapshot struct {
	meeting
	first, second sql.IsolationLevel
	at            moment
}

func (s *snapshot) run() {
	s.lock.name = s.t.Name()
	s.writeUnderLock()
	s.level = s.second
	own := s.begin(s.b)
	switch s.at {
	case reads:
		var n int // of a table that is not locked, or a SERIALIZABLE transaction of MySQL would wait
		s.noError("read", own.QueryRow("SELECT count(*) FROM padlock_meta").Scan(&n))
	case refused:
		if err := s.b.Store.LockTx(s.t.Context(), own, s.lock.name); !errors.Is(err, driver.ErrHeld) {
			safety.TwoHold(s.t, "LockTx while a transaction has the name: %v", err)
			s.t.FailNow()
		}
	case another:
		s.noError("LockTx of another name", s.b.Store.LockTx(s.t.Context(), own, s.lock.name+" too"))
	}
	committed := make(chan error, 1)
	commit := func() { committed <- s.tx.Commit() }
	if s.at == atOnce {
		go commit()
	} else {
		commit()
	}
	s.mayLock(own)
	s.noError("commit", <-committed)
	if !s.mayLock(s.begin(s.b)) {
		s.t.Error("LockTx failed in a new transaction too")
	}
}

// writeUnderLock carries out the steps of process a. Its transaction stays open.
func (s *snapshot) writeUnderLock() {
	locker := padlock.New(s.a.Store, padlock.KeepStoreOpen())
	lock, err := locker.TryAcquire(s.t.Context(), s.lock.name, padlock.TTL(time.Minute), padlock.NoRenewal())
	s.noError("acquire", err)
	s.lock.fence, s.level = lock.Fence(), s.first
	s.tx = s.begin(s.a)
	s.noError("CheckTx", s.a.Store.CheckTx(s.t.Context(), s.tx, lock))
	_, err = s.tx.Exec("INSERT INTO notes VALUES ('" + s.lock.name + "', 'a')")
	s.noError("write", err)
	switch s.end {
	case release:
		s.noError("Release", lock.Release())
	case closes:
		s.noError("Close", locker.Close(s.t.Context()))
	default:
		s.endLock()
	}
}

// mayLock lets a transaction of process b take the lock, look for the note, and write one. It
// reports whether LockTx has succeeded.
func (s *snapshot) mayLock(tx *sql.Tx) bool {
	defer tx.Rollback()
	if s.b.Store.LockTx(s.t.Context(), tx, s.lock.name) != nil {
		return false
	}
	seen, err := s.count(tx)
	if err == nil {
		_, err = tx.Exec("INSERT INTO notes VALUES ('" + s.lock.name + "', 'b')")
	}
	if err == nil {
		err = tx.Commit()
	}
	if err == nil && seen == 0 {
		safety.TooEarly(s.t, "LockTx has succeeded, and the transaction does not see what the one before it has committed")
	}
	if err != nil && s.second != sql.LevelSerializable { // which may refuse a transaction for the sake of the data
		s.t.Error(err)
	}
	return true
}

// count returns how many notes of process a the transaction sees.
func (s *snapshot) count(tx *sql.Tx) (n int, err error) {
	err = tx.QueryRow("SELECT count(*) FROM notes WHERE author = 'a' AND name = '" + s.lock.name + "'").Scan(&n)
	return n, err
}
