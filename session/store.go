package session

import (
	"context"
	"time"
)

// A Store keeps sessions. Its methods are safe for concurrent use, and each is
// one atomic step: two Commits of one key happen one after the other, each
// wholly or not at all. Package sessiontest checks all that is said here.
//
// Keys are chosen by the Manager: 43 letters of base64 for ids that are hashed,
// or PHP's own. An error that is none of those named below means that the
// outcome is not known, unless it answers errors.Is for ErrUnavailable.
type Store interface {
	// Load returns the session at key, even if it is a tombstone, or
	// ErrNotFound. It changes nothing, not even how long the session lives.
	Load(ctx context.Context, key string) (Record, error)

	// Commit applies c if all its conditions hold, and otherwise changes
	// nothing and says why: ErrNotFound, ErrExists, a *MovedError, a
	// *ConflictError, ErrNotNumber, ErrTooLarge, in this order. A session that
	// has expired does not exist.
	Commit(ctx context.Context, key string, c Change) (Result, error)

	// Touch makes the session live for ttl from now; 0 is for ever. Its data
	// are not written and its version stays. It does nothing to a tombstone,
	// and nothing where there is no session.
	Touch(ctx context.Context, key string, ttl time.Duration) error

	// Delete removes the session or tombstone. Where there is none it does
	// nothing. It returns where a tombstone pointed to.
	Delete(ctx context.Context, key string) (Moved, error)

	// Traits says what the Manager must know of the store.
	Traits() Traits
}

// Traits are what the Manager must know of a store.
type Traits struct {
	// CommitsNeedLock: others write these sessions without conditions, and
	// only under the lock, as PHP does. The Manager then refuses to work
	// without a Locker, and destroys under the lock too.
	CommitsNeedLock bool
	// NoDeadline: the store cannot keep the end of the absolute lifetime.
	NoDeadline bool
}

// Field is one key of a session and its encoded value.
type Field struct {
	Key   string
	Value []byte
}

// Record is a session as it is stored. The receiver must not change the bytes.
type Record struct {
	Fields   []Field       // in the store's order; no key twice
	Version  string        // changes with every Commit; otherwise without meaning
	TTL      time.Duration // how long it will live; 0: for ever
	Deadline time.Time     // as Change.Deadline was when it was made; zero: none
	Moved    Moved         // not zero: this is a tombstone
}

// Moved is where a session went that got a new id. The zero value says that it
// did not move.
type Moved struct {
	To string    // the new key
	At time.Time // when, by the clock of the process that moved it, in whole milliseconds
	// Frozen: the old id reads what was there before and nothing else. The
	// store only keeps this.
	Frozen bool
}

// Change is one commit.
type Change struct {
	// Create: there must be no session at the key, and one is made. Otherwise
	// there must be one.
	Create    bool
	Deadline  time.Time // kept with a session that is created, in whole milliseconds
	Version   string    // unless "", the session's version must be this
	Unchanged []Condition
	Ops       []Op // applied in order
	// TTL is how long the session lives from now; 0 is for ever.
	TTL time.Duration
	// MaxSize, unless 0, bounds the bytes of all keys and values after the ops. A
	// session that was larger before the ops may stay as large, or shrink. Where
	// they exceed it nothing is changed, and the error is ErrTooLarge.
	MaxSize int
	// Move, unless zero, makes the session a tombstone that lives for TTL. It
	// keeps its fields, and can only be loaded and deleted.
	Move Moved
}

// Condition is that a key has the value that it had.
type Condition struct {
	Key    string
	Absent bool // it was not there
	Value  []byte
}

// Op changes one key.
type Op struct {
	Kind  OpKind
	Key   string
	Value []byte // of OpPut
	Delta int64  // of OpIncr
}

// OpKind is what an Op does.
type OpKind uint8

const (
	OpPut    OpKind = iota + 1 // sets Value
	OpDelete                   // removes the key
	OpIncr                     // adds Delta; the value is decimal text, absent counts 0, the sum must fit 64 bits
	OpTake                     // removes the key and returns what it was
)

// Result is what a Commit did.
type Result struct {
	Version string // of the session now
	// Values has for each Op the key's value: after OpIncr, before OpTake; nil if
	// it was absent, and for other kinds.
	Values [][]byte
}
