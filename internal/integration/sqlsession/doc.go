// Package sqlsession tries package session/sqlsession on real databases:
// PostgreSQL, MariaDB and SQLite.
package sqlsession
