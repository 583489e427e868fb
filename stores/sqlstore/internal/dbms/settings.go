package dbms

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/sqlpool"
)

// A question asks for a setting of the server that matters for locks.
type question struct {
	name string
	sql  string
	// advice returns a text that says how to change a value, or "" if the value is good.
	advice func(value string) string
	// fatal returns the reason if a value makes locks impossible, and "" otherwise.
	fatal func(value string) string
}

// adviseUnless makes a function that returns "" for the values in goodValues, and the advice for
// all others.
func adviseUnless(advice string, goodValues ...string) func(string) string {
	return func(value string) string {
		for _, g := range goodValues {
			if strings.EqualFold(value, g) {
				return ""
			}
		}
		return advice
	}
}

// For each engine, questions lists what Settings and Examine ask the server.
var questions = map[string][]question{
	PostgreSQL: {
		{name: "version", sql: "SHOW server_version"},
		{
			name: "standby", sql: "SELECT pg_is_in_recovery()",
			fatal: adviseUnless("it is a standby and cannot write; name the primary, or add target_session_attrs=read-write to the URL", "false", "f"),
		},
		{
			name: "read-only", sql: "SHOW default_transaction_read_only",
			fatal: adviseUnless("its transactions are read-only by default", "off"),
		},
		{name: "fsync", sql: "SHOW fsync", advice: adviseUnless("locks are lost when the machine loses power; set fsync = on", "on")},
		{
			name: "synchronous_commit", sql: "SHOW synchronous_commit",
			advice: adviseUnless("locks of the last moments are lost in a crash; set synchronous_commit = on", "on", "remote_apply", "remote_write", "local"),
		},
		{
			name: "standbys", sql: "SELECT CASE WHEN count(*) = 0 THEN 'none'" +
				" WHEN current_setting('synchronous_standby_names') = '' OR current_setting('synchronous_commit') IN ('off', 'local') THEN count(*) || ', asynchronous'" +
				" ELSE count(*) || ', synchronous' END FROM pg_stat_replication",
			advice: func(value string) string {
				if strings.Contains(value, "asynchronous") {
					return "if one of them becomes the primary, locks of the last moments are lost: two holders are possible; set synchronous_standby_names"
				}
				return ""
			},
		},
		{
			name: "idle_in_transaction_session_timeout",
			sql:  "SELECT CASE current_setting('idle_in_transaction_session_timeout') WHEN '0' THEN 'never' ELSE current_setting('idle_in_transaction_session_timeout') END",
		},
	},
	MySQL: {
		{name: "version", sql: "SELECT version()", advice: untestedMySQL},
		{
			name: "read-only", sql: "SELECT @@global.read_only",
			fatal: adviseUnless("it is read-only, as a replica is; name the primary", "0", "OFF"),
		},
		{
			name: "innodb_flush_log_at_trx_commit", sql: "SELECT @@global.innodb_flush_log_at_trx_commit",
			advice: adviseUnless("locks of the last second are lost in a crash; set it to 1", "1"),
		},
		{
			name: "autocommit", sql: "SELECT @@autocommit",
			fatal: adviseUnless("its connections do not commit by themselves, so no lock would be kept; set autocommit=1 in the DSN of the pool", "1", "ON"),
		},
		{
			name: "sql_mode", sql: "SELECT @@sql_mode",
			fatal: func(value string) string {
				if strings.Contains(value, "EMPTY_STRING_IS_NULL") {
					return "it turns an empty text into NULL, which the tables refuse; leave EMPTY_STRING_IS_NULL out of sql_mode"
				}
				return ""
			},
		},
		{
			name: "sql_select_limit", sql: "SELECT @@sql_select_limit",
			fatal: adviseUnless("it leaves rows out of what a connection reads, so locks would seem free; set sql_select_limit=DEFAULT", "18446744073709551615"),
		},
	},
	SQLite: {
		{name: "version", sql: "SELECT sqlite_version()"},
		{
			name: "journal_mode", sql: "PRAGMA journal_mode",
			advice: adviseUnless("readers and the writer are in each other's way; use WAL", "wal"),
		},
		{
			name: "synchronous", sql: "PRAGMA synchronous",
			advice: adviseUnless("locks of the last moments are lost when the machine loses power; set synchronous = FULL", "2", "3"),
		},
		{
			name: "busy_timeout", sql: "PRAGMA busy_timeout",
			advice: func(value string) string {
				if n, err := strconv.Atoi(value); err == nil && n < 1000 {
					return "a statement fails at once while another process writes; set busy_timeout to some seconds"
				}
				return ""
			},
		},
		{
			name: "query_only", sql: "PRAGMA query_only",
			fatal: adviseUnless("the connection cannot write", "0"),
		},
	},
}

func untestedMySQL(version string) string {
	if strings.Contains(version, "MariaDB") {
		return ""
	}
	return "padlock was tested with MariaDB and not with this server"
}

// The names of the engines.
const (
	PostgreSQL = "PostgreSQL"
	MySQL      = "MySQL"
	SQLite     = "SQLite"
)

// Settings asks a server for the settings that matter for locks.
func Settings(ctx context.Context, db *sqlpool.Pool, engine string) ([]driver.Finding, error) {
	var out []driver.Finding
	for _, q := range questions[engine] {
		value, err := Ask(ctx, db, q.sql)
		f := driver.Finding{Name: q.name, Value: value}
		switch {
		case err != nil && Judge(err) == Unknown:
			return nil, Failure(ctx, err, false)
		case err != nil:
			f.Value = driver.Unknown
		case value == "":
			f.Value = "none"
		case q.fatal != nil:
			f.Advice = q.fatal(value)
		case q.advice != nil:
			f.Advice = q.advice(value)
		}
		out = append(out, f)
	}
	return out, nil
}

// Ask returns the one value that a query returns, as text.
func Ask(ctx context.Context, db *sqlpool.Pool, query string) (string, error) {
	var value sql.NullString
	err := db.QueryRowContext(ctx, query).Scan(&value)
	return value.String, err
}

// Examine returns an error if a server cannot keep locks.
func Examine(ctx context.Context, db *sqlpool.Pool, engine string) error {
	for _, q := range questions[engine] {
		if q.fatal == nil {
			continue
		}
		value, err := Ask(ctx, db, q.sql)
		if err != nil {
			return Failure(ctx, err, false)
		}
		if why := q.fatal(value); why != "" {
			db.Leave() // the next call asks on a new connection, which may reach another server
			return fmt.Errorf("%w: %s: %s", driver.ErrUnavailable, engine, why)
		}
	}
	return nil
}
