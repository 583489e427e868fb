// Package redissession keeps web sessions and the values of package stampede in Redis.
//
// Use it if the processes of a site share a Redis. If they share a database instead, use package
// sqlsession; for one process, sessionstore.NewMemory is enough.
//
//	server := redisstore.Config{Addrs: []string{"localhost:6379"}}
//	redis, err := redissession.Open(ctx, server)
//
//	store, err := redisstore.Open(ctx, server, redissession.Locks()...)
//	locker := padlock.New(store)
//
//	sessions, err := session.New(redis.Sessions(), session.Locker(locker))
//	pages, err := stampede.New(locker, redis.Values(), "pages", render, stampede.Fresh(time.Minute))
//
// A session is a hash with a field for each of its keys. A commit is one script, so its conditions
// and its changes are one step. [Redis.Blobs] keeps sessions as single values, as PHP does, so that
// an application in PHP and one in Go serve the same visitors; see [PHPLocks].
//
// Each script has one key, or two with the same hash tag, so everything works on a Redis Cluster.
// Redis 7.0 or later is needed.
package redissession
