// Package mysqladvisory keeps locks as named locks (GET_LOCK) of a MariaDB or MySQL server, which
// it shares with the MysqlStore of PHP's Symfony 8.2. A hold lasts as long as its connection, so
// there are no leases to renew. If a process dies, the server frees its locks.
//
//	store, err := mysqladvisory.Open(ctx, db) // a *sql.DB
//
// The store works through the caller's pool and imports no driver. It keeps connections of its own:
// at most 4 for holds and 8 for waiters. [FromURL] opens a store from a URL.
//
// All databases of a server share the locks. Use it if PHP programs share them, or if a lock should
// be free at once when its process dies. For locks of one database, for shared locks, on a Galera
// cluster, behind a proxy that shares sessions between clients, or if locks must survive a restart
// of the server, use package sqlstore instead.
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package mysqladvisory
