// Package zkstore keeps locks in ZooKeeper 3.5 or newer, as ephemeral sequential nodes. A hold
// lasts as long as the session of its store, so there are no leases to renew. If a process dies,
// the servers end its session, and free its locks, after the session timeout.
//
// Use it if you run ZooKeeper already. If a dead process must not keep its locks for seconds, or if
// you need a cool-down or Lock.Export, use package redisstore or sqlstore instead.
//
//	store, err := zkstore.Open(ctx, zkstore.Config{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}})
//
// All holds of a store share one session and one connection. Waiters queue in ZooKeeper: each of
// them watches only the two nodes before its own, so a release wakes the next two waiters. The
// first of them has the lock, and the second one prepares itself.
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package zkstore
