package redissession

import (
	"time"

	"github.com/padlock-go/padlock/redisstore"
)

// lockNotes is how long the lock store remembers the holder and fence of a
// session's lock. Nothing here needs the fences: a commit compares data.
const lockNotes = time.Minute

// Locks are the options of a lock store for sessions: for redisstore.Open or
// FromURL, before others.
func Locks() []redisstore.Option {
	return []redisstore.Option{redisstore.FenceKeep(lockNotes)}
}

// PHPLocks are the options of a lock store for sessions shared with PHP: a lock
// is a string key, as the redis extension keeps it, and PHP, which polls, gets
// its turn.
//
//	store, err := redisstore.Open(ctx, o, redissession.PHPLocks()...)
//	sessions, err := session.NewPHP(redis.Blobs(), session.WithLocker(padlock.New(store)), session.PHP{})
//
// The lock's key is the session's with _LOCK behind it, unless
// session.PHP.LockSuffix says ".lock". The store must use the server and the
// database that PHP's session.save_path names. On a cluster it may lie in
// another slot than the session; nothing here needs both at once.
func PHPLocks() []redisstore.Option {
	return append(Locks(), redisstore.PlainStrings(), redisstore.Foreign(true))
}
