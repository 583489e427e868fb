// Package pgadvisory keeps locks as advisory locks of a PostgreSQL server, version 14 or newer. A
// hold lasts as long as its connection, so there are no leases to renew. If a process dies, the
// server frees its locks.
//
//	config, err := pgx.ParseConfig("postgres://app@db.internal/shop?sslmode=verify-full")
//	store, err := pgadvisory.Open(ctx, config)
//
// The store opens its own connections: at most 4 for holds and 8 for waiters. Use it if a lock
// should be free at once when its process dies. Behind a pooler in transaction mode, or if locks
// must survive a restart of the server, use package sqlstore instead.
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package pgadvisory
