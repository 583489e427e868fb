// Package memcachestore keeps locks in one memcached server. The locks are best effort: memcached
// keeps nothing on disk, drops data to make room for other data, and has no fences. Use it to keep
// work from being done twice. To protect data from two writers, use package redisstore or sqlstore
// instead. docs/stores/memcached.md lists what the store promises.
//
// PHP's Symfony (MemcachedStore) can share the locks, with [SymfonyLayout].
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package memcachestore
