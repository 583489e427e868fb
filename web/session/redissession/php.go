package redissession

import (
	"time"

	"github.com/padlock-go/padlock/stores/redisstore"
)

// lockNotes is how long the lock store remembers the holder and fence of a session's lock. Sessions
// do not need the fences, since a commit compares data.
const lockNotes = time.Minute

// phpLease is the longest lease of a lock that is shared with PHP. It is some seconds longer than
// the default leases of padlock and of PHP, which are both 30 s. PHP's redis extension takes its
// default from the PHP setting max_execution_time.
const phpLease = 35 * time.Second

// Locks returns options for redisstore.Open and redisstore.FromURL. They make a store for the locks
// of sessions. Give them before other options.
//
// They switch off the restart guard, which would block all sessions for a minute after every
// restart of the server. Sessions do not need the guard, because a commit does not rely on the
// lock: it checks that the values which the request has read are unchanged. If the server lost a
// lock in a restart, two Exclusive requests may run at the same time, and one of them gets 409. For
// work that must not run twice, such as jobs, use another lock store.
func Locks() []redisstore.Option {
	return []redisstore.Option{redisstore.FenceKeep(lockNotes), redisstore.RestartGuard(redisstore.GuardOff)}
}

// PHPLocks returns options for redisstore.Open and redisstore.FromURL. They make a store for the
// locks of sessions that are shared with PHP. A lock is a string key, as in PHP's redis extension.
// PHP tries the lock again and again, with pauses. If padlock passed the lock from one caller to
// the next without a pause, PHP would never find it free. So after a second of such use, padlock
// leaves the lock free for a moment (see redisstore.Foreign).
//
//	store, err := redisstore.Open(ctx, redisstore.Config{Addrs: addrs}, redissession.PHPLocks()...)
//	sessions, err := phpsession.New(redis.Blobs(), padlock.New(store), phpsession.Config{})
//
// PHP overwrites a session without checking whether Go has changed it, so only the lock protects
// what Go has saved. But a Redis server may lose its locks when it restarts. Therefore Go takes no
// lock for 37 s after a restart. By then, all leases from before the restart have ended. During the
// 37 s, requests that write get a 503. A server with appendfsync=always does not lose its locks, so
// Go does not wait after a restart of such a server.
//
// The longest lease is 35 s. If padlock.TTL is longer than that, or if PHP's requests take longer,
// put the option redisstore.MaxTTL after these options.
//
// The lock's key is the session's key with _LOCK after it, unless phpsession.Config.LockSuffix is
// ".lock". The store must use the server and the database that PHP's session.save_path names. On a
// cluster the lock may be in another slot than the session. That does no harm, because no command
// needs both.
func PHPLocks() []redisstore.Option {
	return []redisstore.Option{
		redisstore.FenceKeep(lockNotes), redisstore.MaxTTL(phpLease), redisstore.PlainStrings(), redisstore.Foreign(),
	}
}
