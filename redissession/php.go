package redissession

import (
	"time"

	"github.com/padlock-go/padlock/redisstore"
)

// lockNotes is how long the lock store remembers the holder and fence of a session's lock. Sessions
// do not need the fences, since a commit compares data.
const lockNotes = time.Minute

// phpLease is the longest lease of a lock that is shared with PHP. The default lease of padlock is
// some seconds shorter. On a web server, PHP's default lease is as long as padlock's: PHP's redis
// extension takes it from the PHP setting max_execution_time.
const phpLease = 35 * time.Second

// Locks are the options of a lock store for sessions, for redisstore.Open or FromURL. Give them
// before other options.
//
// They switch off the restart guard, which would block all sessions for minutes after every restart
// of the server. Sessions do not need it: a commit names the values that must not have changed, and
// does not rely on the lock. If the server lost a lock in a restart, two Exclusive requests may run
// at the same time, and one of them gets 409. Jobs for which that is not good enough need a lock
// store of their own.
func Locks() []redisstore.Option {
	return []redisstore.Option{redisstore.FenceKeep(lockNotes), redisstore.RestartGuard(redisstore.GuardOff)}
}

// PHPLocks are the options of a lock store for sessions shared with PHP. A lock is a string key, as
// the redis extension keeps it. PHP looks at the key now and then. If several callers of padlock
// used the lock in turn without a pause, PHP would never find it free. So after a second of such
// use, padlock leaves the lock free for a moment (see redisstore.Foreign).
//
//	store, err := redisstore.Open(ctx, redisstore.Config{Addrs: addrs}, redissession.PHPLocks()...)
//	sessions, err := session.NewPHP(redis.Blobs(), padlock.New(store), session.PHP{})
//
// PHP writes without conditions, so only the lock protects the data that Go has saved. But a Redis
// server may lose its locks when it restarts. Therefore Go takes no lock for 37 s after a restart.
// By then, the leases from before the restart have ended. During the 37 s, requests that write get
// a 503. A server with appendfsync=always does not lose its locks, so Go does not wait after a
// restart of such a server.
//
// The longest lease is 35 s. If padlock.TTL is longer than that, or if PHP's requests take longer,
// put the option redisstore.MaxTTL after these options.
//
// The lock's key is the session's key with _LOCK after it, unless session.PHP.LockSuffix is
// ".lock". The store must use the server and the database that PHP's session.save_path names. On a
// cluster the lock may be in another slot than the session. That does no harm, because no command
// needs both.
func PHPLocks() []redisstore.Option {
	return []redisstore.Option{
		redisstore.FenceKeep(lockNotes), redisstore.MaxTTL(phpLease), redisstore.PlainStrings(), redisstore.Foreign(),
	}
}
