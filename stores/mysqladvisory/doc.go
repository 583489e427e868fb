// Package mysqladvisory keeps locks as named locks (GET_LOCK) of a MariaDB or MySQL server. A hold
// lasts as long as its connection, so there are no leases to renew. If a process dies, the server
// frees its locks.
//
//	store, err := mysqladvisory.Open(ctx, db) // a *sql.DB
//
// The store works through the caller's pool and imports no driver. It keeps connections of its own:
// at most 4 for holds and 8 for waiters. [FromURL] opens a store from a URL.
//
// Use it if a lock should be free at once when its process dies. On a Galera cluster, behind a
// proxy that shares sessions between clients, for shared locks, or if locks must survive a restart
// of the server, use package sqlstore instead.
package mysqladvisory
