package session

import (
	"context"
	"time"
)

// A Store keeps sessions. Its methods are safe for concurrent use, and each is one atomic step: two
// Commits of one key happen one after the other, each completely or not at all. Package sessiontest
// checks all these rules.
//
// The Manager chooses the keys: 43 letters of base64 for ids that are hashed, or PHP's own. If a
// method returns an error that is not named below, its outcome is unknown, unless errors.Is finds
// ErrUnavailable in it.
//
// The interface does not grow. A new ability of stores comes as an optional interface that the
// Manager finds by a type assertion, or as a field of Change or Record that is used only if Traits
// say so.
type Store interface {
	// Load returns the session at key, or the tombstone there, or ErrNotFound. It changes nothing,
	// not even how long the session lives.
	Load(ctx context.Context, key string) (Record, error)

	// Commit applies c if all its conditions hold. Otherwise it changes nothing and returns the
	// first that applies of: ErrNotFound, ErrExists, a *MovedError, a *ConflictError,
	// ErrNotNumber, ErrTooLarge. A session that has expired does not exist.
	Commit(ctx context.Context, key string, c Change) (Result, error)

	// Touch makes the session live for ttl from now; 0 is for ever. Its data and its version stay
	// as they are. Touch does nothing to a tombstone, and nothing if there is no session.
	Touch(ctx context.Context, key string, ttl time.Duration) error

	// Delete removes the session or tombstone at key, if there is one. If it was a tombstone,
	// Delete returns where that pointed to.
	Delete(ctx context.Context, key string) (Moved, error)

	// Traits describes the store to the Manager.
	Traits() Traits
}

// Traits describe a store to the Manager. The zero value is right for a store that only padlock
// uses and that keeps all fields of a Record.
type Traits struct {
	// CommitsNeedLock: other programs write these sessions without conditions, and only under the
	// lock, as PHP does. The Manager then refuses to work without a Locker, and destroys under the
	// lock too.
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

// Moved says where a session with a new id is now. The zero value means that the session did not
// move.
type Moved struct {
	To string    // the new key
	At time.Time // when, by the clock of the process that moved it, in whole milliseconds
	// Frozen: with the old id a request reads the values from before the move and cannot write.
	// The store only keeps this flag.
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

// Condition is that a key still has the value that a request has read.
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

// OpKind is the kind of an Op.
type OpKind uint8

const (
	OpPut    OpKind = iota + 1 // sets Value
	OpDelete                   // removes the key
	OpIncr                     // adds Delta; the value is decimal text, absent counts 0, the sum must fit 64 bits
	OpTake                     // removes the key and returns what it was
)

// Result describes a Commit that succeeded.
type Result struct {
	Version string // of the session now
	// Values has for each Op the key's value: after OpIncr, before OpTake; nil if
	// it was absent, and for other kinds.
	Values [][]byte
}
