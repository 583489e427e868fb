// Package symfony keeps locks in the table lock_keys of PHP's Symfony Lock, as its PdoStore and
// DoctrineDbalStore do. So programs in PHP and in Go exclude each other, without a change on PHP's
// side. It works through the caller's *sql.DB and imports no driver:
//
//	store, err := symfony.Open(ctx, db, sqlstore.PostgreSQL, symfony.Symfony)
//
// Use it if programs in PHP keep their locks in that table. If no program in PHP shares the locks,
// use package sqlstore instead: its table has fences, shared locks, holders and an order of
// waiters, for which lock_keys has no room.
//
// Leases last whole seconds and are judged by the server's clock. docs/stores/symfony-sql.md lists
// the promises and their limits.
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package symfony
