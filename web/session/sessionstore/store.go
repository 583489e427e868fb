package sessionstore

import (
	"context"
	"time"
)

// A Store keeps sessions. Its methods are safe for concurrent use, and each is one atomic step: two
// Commits of one key happen one after the other, each completely or not at all. Package sessiontest
// checks a Store.
//
// The Manager chooses the keys. Ids are hashed, so a key has 43 letters of base64. If the sessions
// are shared with PHP, the keys are those that PHP uses.
//
// If errors.Is finds ErrUnavailable in the error of a method, the method has changed nothing. The
// comments of the methods name other errors and their meanings. After any other error, the method
// may or may not have taken effect.
//
// No methods will be added to this interface. A new ability will be an optional interface, or a
// field of Change or Record that the Manager uses only if Traits say so.
type Store interface {
	// Load returns the session at key, or the tombstone there, or ErrNotFound. It changes nothing,
	// not even how long the session lives.
	Load(ctx context.Context, key string) (Record, error)

	// Commit applies c if all its conditions hold. Otherwise it changes nothing and returns the
	// first of these errors that applies: ErrNotFound, ErrExists, a *MovedError, a *ConflictError,
	// ErrNotNumber, ErrTooLarge. A session that has expired does not exist.
	Commit(ctx context.Context, key string, c Change) (Result, error)

	// Touch makes the session live for ttl from now; 0 means for ever. The session's data and
	// version do not change. If there is no session at key, or only a tombstone, Touch does
	// nothing.
	Touch(ctx context.Context, key string, ttl time.Duration) error

	// Delete removes the session or tombstone at key, if there is one. If it was a tombstone,
	// Delete returns where the session moved.
	Delete(ctx context.Context, key string) (Moved, error)

	// Traits describes the store to the Manager.
	Traits() Traits
}

// Traits describe a store to the Manager. The zero value is right for a store that only padlock
// uses and that keeps all fields of a Record.
type Traits struct {
	// CommitsNeedLock: other programs, such as PHP, write these sessions under the lock, and do not
	// check whether the session has changed since they read it. New then requires a Locker, and
	// Destroy takes the lock too.
	CommitsNeedLock bool
	// NoDeadline: the store cannot keep the end of the absolute lifetime.
	NoDeadline bool
	// Rules are the rules of the other programs that use these sessions. Without them, padlock's
	// own rules apply.
	Rules Rules
}

// Rules say how another program that uses the same sessions, such as PHP, names them. They are safe
// for concurrent use.
type Rules interface {
	// NewID makes an id that nobody can guess.
	NewID() string
	// ValidID reports whether id has the form of an id. The store is asked only for valid ids.
	ValidID(id string) bool
	// Key returns the key of a session in the store.
	Key(id string) string
	// Lock returns the name of the lock of the session at key.
	Lock(key string) string
	// ShownLock returns the name of that lock for logs and answers, without the session's id.
	ShownLock(key string) string
	// CheckKey returns ErrKey if the format of the sessions cannot hold a value at key.
	CheckKey(key string) error
}

// Field is one key of a session and its encoded value.
type Field struct {
	Key   string
	Value []byte
}

// Record is a session as it is stored. The receiver must not change the bytes.
type Record struct {
	Fields   []Field       // in the store's order, each key once
	Version  string        // changes with every Commit, and has no other meaning
	TTL      time.Duration // the remaining lifetime; 0: for ever
	Deadline time.Time     // Change.Deadline of the commit that made the session; zero: none
	Moved    Moved         // if not zero, this is a tombstone
	// Try may be nil. Otherwise Try applies a Put or a Delete to a copy of the loaded session, and
	// returns the error that a commit of this Op would return. So Session.Put can return the error.
	Try func(Op) error
}

// Moved says where a session with a new id is now. The zero value means that the session did not
// move.
type Moved struct {
	To Key       // the new key
	At time.Time // when it moved, by the clock of the process that moved it, in whole milliseconds
}

// Change is one commit.
type Change struct {
	// Create: there must be no session at the key, and Commit makes one. Without Create there must
	// be a session.
	Create    bool
	Deadline  time.Time // stored with a session that this commit creates, in whole milliseconds
	Version   string    // if not "", the version that the session must have
	Unchanged []Condition
	Ops       []Op // applied in order
	// TTL is how long the session lives from now; 0 means for ever.
	TTL time.Duration
	// MaxSize limits how many bytes all keys and values have together after the ops; 0 means no
	// limit. If the ops would exceed it, nothing is changed and the error is ErrTooLarge. But if
	// the session is already larger, the ops are allowed as long as they do not make it grow.
	MaxSize int
	// If Move is not zero, Commit replaces the session by a tombstone, which lives for TTL. The
	// tombstone keeps the session's fields. It can only be loaded and deleted.
	Move Moved
}

// A Condition requires that a key still has the value that a request has read.
type Condition struct {
	Key    string
	Absent bool // the key must not exist
	Value  []byte
}

// Op changes one key.
type Op struct {
	Kind  OpKind
	Key   string
	Value []byte // for OpPut
	Delta int64  // for OpIncr
}

// OpKind is the kind of an Op.
type OpKind uint8

const (
	OpPut    OpKind = iota + 1 // sets Value
	OpDelete                   // removes the key
	OpIncr                     // adds Delta; the value is decimal text, an absent key counts as 0, the sum must fit 64 bits
	OpTake                     // removes the key and returns its value
)

// Result describes a Commit that succeeded.
type Result struct {
	Version string // the session's new version
	// Values has one entry for each Op. After OpIncr, the entry is the new value of the key. After
	// OpTake, it is the value that the key had before, or nil if there was none. For all other
	// kinds of Op, the entry is nil.
	Values [][]byte
}
