// Package sqlstore keeps locks in a table of a database that is already there: PostgreSQL, MySQL or
// MariaDB, or SQLite. It works over the caller's *sql.DB and imports no driver:
//
//	store, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL)
//
// [FromURL] opens it from a URL, with a driver of sqlstore/drivers.
//
// If the protected data is in the same database, [Store.CheckTx] and [Store.LockTx] make a late
// write impossible, so nobody has to check fences.
//
// Any number of processes may use the same tables; they are made at the first use. Only the
// server's clock judges leases. docs/stores/sql.md lists the promises and their limits.
package sqlstore
