// Package sqlstore keeps locks in a table of a database that is already there: PostgreSQL, MySQL or
// MariaDB, or SQLite. It works over the caller's *sql.DB and imports no driver.
package sqlstore
