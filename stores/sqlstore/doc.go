// Package sqlstore keeps locks in a table of a database that you already have: PostgreSQL, MySQL or
// MariaDB, or SQLite. It works through the caller's *sql.DB and imports no driver.
//
// Use it if you have a database and want no other server. If many processes wait for the same locks
// all the time, use package redisstore instead, or package pgadvisory or mysqladvisory.
//
//	store, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL)
//
// [FromURL] opens a store from a URL, with one of the drivers of the module sqlstore/drivers: its
// packages postgres, mysql and sqlite.
//
// If the protected data is in the same database, [Store.CheckTx] and [Store.LockTx] make a late
// write impossible, so the program need not check fences.
//
// Any number of processes may use the same tables. The first use creates them. Whether a lease has
// ended is decided by the server's clock only. docs/stores/sql.md lists the promises and their
// limits.
//
// It is a core store: see docs/which-store.md, "Core stores and guests".
package sqlstore
