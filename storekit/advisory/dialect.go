// Package advisory is a whole store over locks that end with their connection, such as the advisory
// locks of PostgreSQL and the named locks of MySQL. It has everything that does not depend on the
// server: the holds of this process, the connections that carry them, the queue of the waiters
// without a connection, reservations, unknown outcomes, promotions, and the sweep of the table of
// fences. A [Dialect] says it to a server.
//
// The API of this package is not stable. It has two users, stores/pgadvisory and
// stores/mysqladvisory, which are released together with it. It is for these two only: a store from
// outside should copy the package instead of depending on it.
package advisory

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A Lock is a lock in the server.
type Lock struct {
	Name string // the name that the caller gave
	Key  string // what the server locks: the result of Dialect.Key
}

// A Session is one connection and its session in the server. Once it has ended, it is never used
// again. Its methods may be called at the same time.
type Session interface {
	// Bound is canceled when the connection ends. The cause is driver.ErrLost or driver.ErrClosed.
	// The store gives it to holders as Grant.Bound.
	Bound() context.Context
	// Watch runs until the connection has ended, and then closes it. While no statement runs, it
	// notices that end within the store's LossDelay.
	Watch()
	// Lose ends the connection because of an error, and everything that depends on it.
	Lose(err error)
	// Close ends the connection, and returns when it is closed. It also ends a running statement.
	Close()
}

// A Grant is the server's answer to a request for a lock.
type Grant struct {
	Granted bool
	Fence   uint64 // 0 without fences
}

// A Dialect talks to one kind of server. C is its connection. The methods send statements on the
// connection that they get, and return the errors of these statements: a storekit.NoReply if the
// connection has ended, and the server's error if it refused the statement. A refused statement has
// changed nothing.
//
// Where the caller must know better, the methods return an error of package driver.
type Dialect[C Session] interface {
	// Connect makes a connection. No lock has been asked for, so no error is ErrUncertain.
	Connect(ctx context.Context) (C, error)
	// SetUp sets a new session up and checks the server.
	SetUp(c C) error
	// Conflict compares a new session with another one. It returns ErrInvalid if they are one
	// session, as behind a proxy that shares sessions between clients, and ErrUnavailable if their
	// servers are not the same.
	Conflict(c, other C) error
	// Probes returns how many more connections the store makes to compare c with them. alone says
	// that the store has no other connection.
	Probes(c C, alone bool) int
	// Key returns what the server locks for a name.
	Key(name string) string
	// Place returns what the server said of itself when it was asked, or "", and a value that is
	// equal if two stores reach their servers in one way.
	Place() (known string, way any)

	// Try makes one try for a lock. An error says whether the session has the lock:
	//
	//	a NoReply, not Unsent  perhaps; a repeat of the token calls Settle
	//	a NoReply, Unsent      no
	//	any other              perhaps; the store sends Unlock
	Try(c C, l Lock, r *driver.Request) (Grant, error)
	// Await waits in the server's queue for a lock. When ctx ends, the store calls EndWait, and
	// Await returns soon. If the process is stopped after the grant, the server must end the
	// session soon. Unless the lock is granted, the store closes the connection.
	Await(ctx context.Context, c C, l Lock, r *driver.Request) (Grant, error)
	// EndWait ends the statement of Await in the session waiting, unless it ends soon by itself.
	// Servers log a client that leaves during a statement. c is another session.
	EndWait(c, waiting C) error
	// Claim makes the session of a granted Await one that may be idle, as after Try.
	Claim(c C) error
	// Unlock releases a lock. It returns false if the session did not have the lock.
	Unlock(c C, l Lock, shared bool) (had bool, err error)
	// Verify checks that the session answers and has the lock. If it does not have the lock, Verify
	// loses the connection. With the zero Lock, it checks only that the session answers.
	Verify(c C, l Lock) error
	// RaiseFence makes the fence of a lock at least as high as the given one. The session has the
	// lock.
	RaiseFence(c C, l Lock, h driver.Holder, fence uint64) error
	// Settle returns true if the session of a connection that was lost has ended, or no longer has
	// the lock and does nothing. Otherwise it does what it can to end that session.
	Settle(c, lost C, l Lock) (gone bool, err error)
	// Holders returns the holders of a lock, and its fence.
	Holders(c C, l Lock) ([]driver.Hold, uint64, error)
	// LooksFree reports whether a try for a lock may succeed.
	LooksFree(c C, l Lock, shared bool) (bool, error)

	Table[C]
}

// A Table is the table of fences. Without fences, its methods are not called.
type Table[C Session] interface {
	// Fence returns the fence in the row of a key. It returns false if there is no such row.
	Fence(c C, key string) (fence uint64, found bool, err error)
	// VersionKey returns the key of the row whose fence is the version of the table.
	VersionKey() string
	// Lacks says whether the server refused a statement because the table is missing, or because
	// the user may not use it or not make it.
	Lacks(err error) (table, rights bool)
	// MakeTable makes the table and the row of the version. Several processes may call it at the
	// same time.
	MakeTable(c C) error
	// SweepDue returns true if nobody has begun a sweep of the table for the given time. It then
	// notes that this process begins one.
	SweepDue(c C, every time.Duration) (bool, error)
	// Sweep removes a batch of rows that are older than keep and whose lock is free, in the order
	// of their keys. It begins behind the row "after", which is "" for the first batch. It returns
	// how many rows it removed, and the last row that it looked at, or "" at the end of the table.
	Sweep(c C, after string, batch int, keep time.Duration) (removed int, last string, err error)
}

// A Sharer is a Dialect whose locks may be shared. A session that has a shared lock may take the
// lock again for another reader; Unlock then gives back one of them. A second lock in the server,
// the intent, says that a reader waits to be promoted.
type Sharer[C Session] interface {
	// Queued reports whether a session waits for the lock.
	Queued(c C, l Lock) (bool, error)
	// Intend takes the intent. It returns false if new readers are in the way, which is over soon,
	// and ErrPromotionConflict if another reader has the intent. After an error the session does
	// not have the intent, unless its connection has ended.
	Intend(c C, l Lock) (bool, error)
	// Withdraw releases the intent. It returns false if the session did not have the intent.
	Withdraw(c C, l Lock) (had bool, err error)
	// Promote turns the shared lock of a session with the intent into an exclusive one, and
	// releases the intent. It does not wait. After an error the session has the shared lock and the
	// intent, unless its connection has ended.
	Promote(c C, l Lock, r *driver.Request) (Grant, error)
	// Demote turns an exclusive lock into a shared one. Nobody gets the lock in between. After an
	// error the session has the exclusive lock, unless its connection has ended.
	Demote(c C, l Lock) error
}

func alive(s Session) bool { return s.Bound().Err() == nil }
