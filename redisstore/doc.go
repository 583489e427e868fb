// Package redisstore keeps locks in Redis: on one server, behind Sentinel or
// in a cluster.
//
// By default a lock is the sorted set that PHP's Symfony keeps, at the raw
// name, so that both exclude each other; with [PlainStrings] it is the string
// of the plain recipe (SET NX PX), which redsync and others use. Fences,
// holders and the queue of those who wait stand beside it, in keys that begin
// with "padlock:{".
//
// A lock in Redis is as good as the memory of the server. docs/stores/redis.md
// says what is promised under which settings of it.
package redisstore
