// Package txtest is the contract for checking and taking locks inside a transaction of the caller's:
// no two of Acquire, CheckTx and LockTx give one name to two callers.
package txtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A Process has a pool and a store of its own, as another process would.
type Process struct {
	DB    *sql.DB
	Store *sqlstore.Store
}

// A Harness describes the store under test.
type Harness struct {
	Start  func(t *testing.T) Process // starts another process
	Levels []sql.IsolationLevel

	// OneWriter means that every write waits for an open transaction that has written, as on
	// SQLite. Release and Break do too.
	OneWriter bool

	// EndLease is a statement that ends the lease of the name in its parameter.
	EndLease string

	// Forget is a statement that removes the row of the name in its parameter, in a table that only
	// transactions need. It is "" if there is no such table. Without the row, the first CheckTx may
	// return ErrTx, if it makes the row and its transaction cannot see it.
	Forget string
}

// A way is a way to get a name.
type way string

const (
	acquire way = "Acquire"
	checkTx way = "CheckTx"
	lockTx  way = "LockTx"
)

var ways = []way{acquire, checkTx, lockTx}

// An ending is a way in which a lock ends.
type ending string

const (
	leaseEnds ending = "lease ends"
	release   ending = "Release"
	evict     ending = "Break"
)

// Run tests every pair of Acquire, CheckTx and LockTx, at every isolation level, after every way in
// which a lock can end.
func Run(t *testing.T, h Harness) {
	a, b := h.Start(t), h.Start(t)
	forget := []bool{false, true}
	if h.Forget == "" {
		forget = forget[:1]
	}
	for _, level := range h.Levels {
		for _, end := range []ending{leaseEnds, release, evict} {
			for _, first := range ways {
				for _, second := range ways {
					for _, f := range forget {
						name := fmt.Sprintf("%s/%s/%s then %s", level, end, first, second)
						if f {
							name += ", row missing"
						}
						t.Run(name, func(t *testing.T) {
							m := &meeting{h: &h, t: t, a: a, b: b, level: level, end: end, forget: f}
							m.run(first, second)
						})
					}
				}
			}
		}
	}
}

// A meeting is one case of the contract:
//
//  1. Process a acquires the name.
//  2. If the first way is CheckTx, process a checks the lock in a transaction, which stays open.
//  3. The lock ends.
//  4. If the first way is LockTx, process a takes the name in a transaction, which stays open.
//  5. Process b tries to get the name in the second way.
//  6. The transaction of process a ends, and process b tries again.
//
// If the second way is CheckTx, process b checks the lock that has ended.
type meeting struct {
	h      *Harness
	t      *testing.T
	a, b   Process
	level  sql.IsolationLevel
	end    ending
	forget bool

	lock granted // of process a
	tx   *sql.Tx // of process a, while it is open
}

// granted is what CheckTx needs to know about a lock.
type granted struct {
	name  string
	fence uint64
}

func (g granted) Name() string  { return g.name }
func (g granted) Fence() uint64 { return g.fence }

const token = "process a"

func (m *meeting) run(first, second way) {
	m.lock.name = m.t.Name()
	r := driver.Request{Name: m.lock.name, Token: driver.TokenOf(token), TTL: time.Minute, Holder: driver.Holder{Host: "a", PID: 1}}
	g, err := m.a.Store.Acquire(m.t.Context(), r)
	m.noError("Acquire of a free name", err)
	m.lock.fence = g.Fence
	if m.forget {
		_, err := m.a.DB.ExecContext(m.t.Context(), m.h.Forget, []byte(m.lock.name))
		m.noError("remove the row", err)
	}
	if first == checkTx {
		m.tx, err = m.check(m.t.Context(), m.a)
		m.noError("CheckTx under a lock", err)
	}
	ended := m.endLock()
	if first == lockTx {
		m.tx = m.begin(m.a)
		m.noError("LockTx of a free name", m.a.Store.LockTx(m.t.Context(), m.tx, m.lock.name))
	}
	m.try(second)
	if m.tx == nil {
		return
	}
	m.noError("commit", m.tx.Commit())
	m.tx = nil
	if !ended {
		m.endLock()
	}
	m.try(second)
}

// endLock ends the lock of process a. It returns false if the open transaction makes that
// impossible.
func (m *meeting) endLock() bool {
	ctx, cancel := m.patience()
	defer cancel()
	var err error
	switch {
	case m.end == leaseEnds && m.h.OneWriter && m.tx != nil: // waits for nobody, and its ctx would end the transaction
		_, err = m.tx.ExecContext(m.t.Context(), m.h.EndLease, []byte(m.lock.name))
	case m.end == leaseEnds:
		_, err = m.a.DB.ExecContext(ctx, m.h.EndLease, []byte(m.lock.name))
	case m.end == release:
		_, err = m.a.Store.Release(ctx, m.lock.name, token, 0)
	case m.end == evict:
		_, err = m.b.Store.Break(ctx, m.lock.name, m.lock.fence)
	}
	if err != nil && m.h.OneWriter && m.tx != nil {
		return false
	}
	m.noError(string(m.end), err)
	return true
}

// patience returns the context of a call. If the call has to wait for the open transaction, the
// context ends soon.
func (m *meeting) patience() (context.Context, context.CancelFunc) {
	if m.h.OneWriter && m.tx != nil {
		return context.WithTimeout(m.t.Context(), 100*time.Millisecond)
	}
	return context.WithTimeout(m.t.Context(), time.Minute)
}

func (m *meeting) begin(p Process) *sql.Tx {
	tx, err := p.DB.BeginTx(m.t.Context(), &sql.TxOptions{Isolation: m.level})
	m.noError("begin", err)
	m.t.Cleanup(func() { tx.Rollback() })
	return tx
}

func (m *meeting) noError(what string, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
}

// try lets process b try to get the name, and compares the result with the contract.
func (m *meeting) try(w way) {
	m.t.Helper()
	err := m.get(w)
	over := errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrExpired)
	switch {
	case m.tx == nil && w == checkTx:
		if !over {
			m.t.Errorf("CheckTx of a lock that has ended: %v; want ErrLost or ErrExpired", err)
		}
	case m.tx == nil:
		m.noError(string(w)+" of a free name", err)
	case err == nil:
		safety.TwoHold(m.t, "%s succeeded while a transaction has the name", w)
	case m.h.OneWriter: // the call has waited for the transaction, and given up
	case w == checkTx && !over, w != checkTx && !errors.Is(err, driver.ErrHeld):
		m.t.Errorf("%s while a transaction has the name: %v", w, err)
	}
}

// get lets process b get the name, and give it back.
func (m *meeting) get(w way) error {
	ctx, cancel := m.patience()
	defer cancel()
	if w == acquire {
		r := driver.Request{Name: m.lock.name, Token: driver.TokenOf("process b"), TTL: time.Minute, Holder: driver.Holder{Host: "b", PID: 1}}
		if _, err := m.b.Store.Acquire(ctx, r); err != nil {
			return err
		}
		_, err := m.b.Store.Release(ctx, m.lock.name, r.Token.Text(), 0)
		return err
	}
	if w == checkTx {
		tx, err := m.check(ctx, m.b)
		tx.Rollback()
		return err
	}
	tx := m.begin(m.b)
	defer tx.Rollback()
	return m.b.Store.LockTx(ctx, tx, m.lock.name)
}

// check lets a process check the lock of process a in a new transaction.
func (m *meeting) check(ctx context.Context, p Process) (*sql.Tx, error) {
	tx := m.begin(p)
	err := p.Store.CheckTx(ctx, tx, m.lock)
	if m.forget && errors.Is(err, sqlstore.ErrTx) {
		tx.Rollback()
		tx = m.begin(p)
		err = p.Store.CheckTx(ctx, tx, m.lock)
	}
	return tx, err
}
