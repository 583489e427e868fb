package sqlstore

import (
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Engine is the kind of database.
type Engine int

const (
	// PostgreSQL is PostgreSQL 12 or later, or a database that speaks its dialect.
	PostgreSQL Engine = iota + 1
	// MySQL is MariaDB 10.6 or later, or MySQL 8.
	MySQL
	// SQLite is SQLite 3.35 or later.
	SQLite
)

// String returns "PostgreSQL", "MySQL" or "SQLite".
func (e Engine) String() string {
	switch e {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return "Engine(" + strconv.Itoa(int(e)) + ")"
}

// A dialect holds the differences between the engines.
type dialect struct {
	now     string // the server's clock, microseconds since 1970
	numbers bool   // placeholders are $1, $2, …
	grants  bool   // CheckTx locks a row of a second table
	nowait  string // the end of a SELECT that locks a row and must not wait for it
	share   string // the end of a SELECT that locks a row against writers only
	minPool int    // the least number of connections in a pool

	binary string // the type of a short byte string
	text   string // the type of a long text
	suffix string // the end of CREATE TABLE
}

var dialects = map[Engine]*dialect{
	PostgreSQL: {
		now:     dbms.Clock[dbms.PostgreSQL],
		numbers: true, grants: true, nowait: " FOR UPDATE NOWAIT", minPool: 2,
		binary: "bytea", text: "text",
	},
	MySQL: {
		now:    dbms.Clock[dbms.MySQL],
		grants: true, nowait: " FOR UPDATE NOWAIT", share: "LOCK IN SHARE MODE", minPool: 2,
		binary: "varbinary(1024)", text: "mediumtext",
		suffix: " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
	},
	SQLite: {
		now:     dbms.Clock[dbms.SQLite],
		minPool: 1,
		binary:  "blob", text: "text",
		suffix: " WITHOUT ROWID",
	},
}

// max returns the SQL for the greater of two numbers, neither of which may be NULL.
func (d *dialect) max(a, b string) string {
	if d == dialects[SQLite] {
		return "MAX(" + a + ", " + b + ")"
	}
	return "GREATEST(" + a + ", " + b + ")"
}

// home returns the SQL for a text that names the tables of a store and their database, in a query
// of the row with the store's id. A copy of the database has the same id.
func (d *dialect) home(t tables) string {
	switch d {
	case dialects[PostgreSQL]:
		return "value || ' ' || (SELECT oid FROM pg_database WHERE datname = current_database()) || ' ' ||" +
			" (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"
	case dialects[MySQL]:
		database := "DATABASE()"
		if strings.Contains(t.meta, ".") { // the tables do not follow the connection's database
			database = "''"
		}
		return "CONCAT_WS(' ', value, " + database + ", @@hostname, @@port, @@datadir)"
	}
	return "value"
}

// unlessThere returns the end of an INSERT that does nothing if there is a row with the same value
// of the column.
func (d *dialect) unlessThere(column string) string {
	if d == dialects[MySQL] {
		return " ON DUPLICATE KEY UPDATE " + column + " = " + column
	}
	return " ON CONFLICT (" + column + ") DO NOTHING"
}

// bind replaces each ? by the placeholder of the engine.
func (d *dialect) bind(query string) string {
	if !d.numbers {
		return query
	}
	return dbms.Number(query)
}
