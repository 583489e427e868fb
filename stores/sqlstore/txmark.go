package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"weak"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// The locks of CheckTx and LockTx end with the transaction of the database, and database/sql may
// not know that it has ended: the same *sql.Tx may be in another transaction by then. So each call
// leaves a mark in the transaction that ends together with its locks: when the transaction ends,
// and at a rollback to an earlier savepoint. On MySQL and SQLite a mark is a savepoint, and on
// PostgreSQL a number in a setting that is local to the transaction. ConfirmTx looks for all marks.

// A mark says what a call has secured in a transaction.
type mark struct {
	number int
	name   string
	fence  uint64 // of the lock that CheckTx has checked; 0 for LockTx
}

// marks are the marks of one transaction.
type marks struct {
	mu   sync.Mutex
	list []mark
	last int
}

// marksOf has the *marks of each *sql.Tx by a weak.Pointer, until the *sql.Tx is garbage.
var marksOf sync.Map

// marksIn returns the marks of a transaction. A transaction of another library has no identity that
// lasts, so padlock remembers nothing about it, and the result is empty: each call for it makes
// mark 1, and ConfirmTx looks for that one.
func marksIn(tx any) *marks {
	own, ok := tx.(*sql.Tx)
	if !ok {
		return &marks{}
	}
	key := weak.Make(own)
	m, known := marksOf.LoadOrStore(key, &marks{})
	if !known {
		runtime.AddCleanup(own, func(key weak.Pointer[sql.Tx]) { marksOf.Delete(key) }, key)
	}
	return m.(*marks)
}

// add adds a mark and returns its number. A second check of a lock replaces the mark of the first
// one: the fence proves that nobody else has had the name meanwhile.
func (m *marks) add(name string, fence uint64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(old mark) bool {
		return fence != 0 && old.name == name && old.fence == fence
	})
	m.last++
	m.list = append(m.list, mark{m.last, name, fence})
	return m.last
}

// numbers returns the numbers that ConfirmTx has to find, the latest first.
func (m *marks) numbers() []int {
	if len(m.list) == 0 {
		return []int{1}
	}
	list := each(m.list, func(one mark) int { return one.number })
	slices.Sort(list)
	slices.Reverse(list)
	return slices.Compact(list)
}

// mark leaves a mark in a transaction after its locks were taken.
func (s *Store) mark(ctx context.Context, tx Tx, number int) (err error) {
	if s.engine == PostgreSQL {
		var all string
		err = tx.QueryRow(ctx, s.rows.sql.tx.mark, ","+strconv.Itoa(number)).Scan(&all)
	} else {
		_, err = tx.Exec(ctx, "SAVEPOINT "+savepoint(number))
	}
	return dbms.Failure(ctx, err, false)
}

func savepoint(number int) string { return "padlock_" + strconv.Itoa(number) }

// confirm returns driver.ErrLost if a mark is missing.
func (s *Store) confirm(ctx context.Context, tx Tx, m *marks) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	numbers := m.numbers()
	if s.engine == PostgreSQL {
		return s.confirmSetting(ctx, tx, numbers)
	}
	for _, n := range numbers {
		// The latest first: with a savepoint, a database removes the later ones too.
		_, err := tx.Exec(ctx, "RELEASE SAVEPOINT "+savepoint(n))
		if dbms.NoSavepoint(err) {
			return errNotKept
		}
		if err != nil {
			return dbms.Failure(ctx, err, false)
		}
	}
	for i := range m.list { // one mark for all, so that ConfirmTx can be called again
		m.list[i].number = numbers[0]
	}
	return s.mark(ctx, tx, numbers[0])
}

// confirmSetting does the work of confirm on PostgreSQL.
func (s *Store) confirmSetting(ctx context.Context, tx Tx, numbers []int) error {
	var all string
	if err := tx.QueryRow(ctx, s.rows.sql.tx.marks).Scan(&all); err != nil {
		return dbms.Failure(ctx, err, false)
	}
	there := strings.Split(all, ",")
	for _, n := range numbers {
		if !slices.Contains(there, strconv.Itoa(n)) {
			return errNotKept
		}
	}
	return nil
}

// errNotKept is the error of ConfirmTx for a transaction that does not keep all of its names.
var errNotKept = fmt.Errorf("%w: %w", driver.ErrLost, errors.New("the transaction in which CheckTx or LockTx has "+
	"secured a name has ended, for instance after a deadlock, or was rolled back to a savepoint; roll back and begin a new one"))
