// Package sqlsession tests package session/sqlsession with real databases: PostgreSQL, MariaDB and
// SQLite.
package sqlsession
