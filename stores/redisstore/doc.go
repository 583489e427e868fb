// Package redisstore keeps locks in Redis: on one server, behind Sentinel or in a cluster.
//
// Use it for locks between machines that have a Redis, above all if locks change hands often. If
// the data that a lock protects are in a database, use package sqlstore instead: a transaction
// there can refuse a holder whose lock is lost. If a lock must survive the loss of the server, use
// package quorum.
//
//	store, err := redisstore.Open(ctx, redisstore.Config{Addrs: []string{"localhost:6379"}})
//
// By default a lock is a sorted set at the name itself, as in PHP's Symfony, so that programs with
// padlock and with Symfony exclude each other. With [PlainStrings] it is a string, as in the SET NX
// PX locks of redsync and others. The fence, the holder and the queue of waiters are in further
// keys, which begin with "padlock:{".
//
// A lock in Redis is as durable as the memory of the server. docs/stores/redis.md lists the
// promises for each setting of the server.
//
// It is a core store: see docs/which-store.md, "Core stores and guests".
package redisstore
