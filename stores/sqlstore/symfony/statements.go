package symfony

import (
	"strings"

	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// The table has one row for each name that is held:
//
//	key_id          the name, or its SHA-256 in hexadecimal digits; see Layout
//	key_token       the token of the hold
//	key_expiration  the time when the lease ends, in whole seconds since 1970; NULL if it never ends
//
// In SQLite, PHP may store a time with a fraction of a second.
//
// From key_expiration on, any program may take over the row. On PostgreSQL, Symfony up to 7.3.1
// does so 500 ms too early, because it rounds the clock to whole seconds. So on PostgreSQL, the
// leases of padlock end 500 ms before key_expiration. On the other engines, they end at
// key_expiration. padlock never takes over the row of another program before key_expiration.
//
// Every take-over writes the token of the new hold into the row. So while the row has the token of
// a hold, nobody else has had the name since that hold began, even if its lease has ended.

// A dialect holds the differences between the engines.
type dialect struct {
	now     string // the server's clock, microseconds since 1970
	seconds string // the server's clock, whole seconds
	numbers bool   // placeholders are $1, $2, …
	// returns is true if the engine has RETURNING, with which a statement can return the row that
	// it wrote.
	returns bool
	// Some versions of PHP take over a lease too soon. The field early says by how much.
	early   micros
	greater string // the function for the greater of two numbers
	wide    string // casts {end}, the end of a lease, to a type that has room for microseconds
	take    string // takes a free name, or makes the lease of the token's own hold longer

	create string // makes the table as PHP does
}

var dialects = map[sqlstore.Engine]*dialect{
	sqlstore.PostgreSQL: {
		now: dbms.Clock[dbms.PostgreSQL], seconds: dbms.Clock[dbms.PostgreSQL] + " / 1000000",
		numbers: true, returns: true, early: 500_000, greater: "GREATEST", wide: "::bigint",
		take:   upsert,
		create: "CREATE TABLE {table} ({id} VARCHAR(64) NOT NULL PRIMARY KEY, {token} VARCHAR(64) NOT NULL, {end} INTEGER)",
	},
	sqlstore.MySQL: {
		now: dbms.Clock[dbms.MySQL], seconds: dbms.Clock[dbms.MySQL] + " DIV 1000000",
		greater: "GREATEST",
		// {token} is assigned first, so the condition on {end} sees the new token.
		take: "INSERT INTO {table} ({id}, {token}, {end}) VALUES (?, ?, {seconds} + ?) ON DUPLICATE KEY UPDATE " +
			"{token} = IF(CAST({token} AS BINARY) = CAST(VALUES({token}) AS BINARY) OR " + over + ", VALUES({token}), {token}), " +
			"{end} = IF(CAST({token} AS BINARY) = CAST(VALUES({token}) AS BINARY), GREATEST({end}, VALUES({end})), {end})",
		create: "CREATE TABLE {table} ({id} VARCHAR(64) NOT NULL PRIMARY KEY, {token} VARCHAR(44) NOT NULL, {end} INTEGER UNSIGNED NOT NULL) COLLATE utf8mb4_bin, ENGINE = InnoDB",
	},
	sqlstore.SQLite: {
		now: dbms.Clock[dbms.SQLite], seconds: dbms.Clock[dbms.SQLite] + " / 1000000",
		returns: true, greater: "MAX",
		take:   upsert,
		create: "CREATE TABLE {table} ({id} TEXT NOT NULL PRIMARY KEY, {token} TEXT NOT NULL, {end} INTEGER)",
	},
}

// upsert is the text of the statement "take" for the engines that have ON CONFLICT.
const upsert = "INSERT INTO {table} AS l ({id}, {token}, {end}) VALUES (?, ?, {seconds} + ?) ON CONFLICT ({id}) DO UPDATE SET " +
	"{token} = excluded.{token}, " +
	"{end} = CASE WHEN l.{token} = excluded.{token} THEN {greater}(l.{end}, excluded.{end}) ELSE excluded.{end} END " +
	"WHERE l.{token} = excluded.{token} OR l.{end}{wide} * 1000000 <= {now}"

// exact returns the SQL for a text that is to be compared exactly. On MySQL, Doctrine makes its
// table with a collation that ignores the case of letters.
func (d *dialect) exact(text string) string {
	if d == dialects[sqlstore.MySQL] {
		return "CAST(" + text + " AS BINARY)"
	}
	return text
}

// statements holds the SQL texts of one store.
type statements struct {
	create              string // the table
	read                string // the row of a name
	take, extend, adopt string // write the row of a hold
	release             string // removes the row of a live hold
	clear               string // removes the row of a hold, whether it is live or not
	evict               string // removes the row of a name
	list, old, prune    string
}

// The conditions on a row.
const (
	live = "({end} IS NULL OR {end}{wide} * 1000000 > {now})"
	over = "{end}{wide} * 1000000 <= {now}"
	mine = "{id} = ? AND {exact token} = {exact ?}"
)

func newStatements(d *dialect, c *config) statements {
	fill := strings.NewReplacer(
		"{table}", c.table, "{id}", c.id, "{token}", c.token, "{end}", c.expiration,
		"{exact token}", d.exact(c.token), "{exact ?}", d.exact("?"), "{wide}", d.wide,
		"{now}", d.now, "{seconds}", d.seconds, "{greater}", d.greater,
	)
	text := func(parts ...string) string {
		query := fill.Replace(strings.Join(parts, ""))
		if d.numbers {
			query = dbms.Number(query)
		}
		return query
	}
	row := "{token}, {end}, {now}"
	returning := ""
	if d.returns {
		returning = " RETURNING " + row
	}
	st := statements{
		create:  text(d.create),
		read:    text("SELECT ", row, " FROM {table} WHERE {id} = ?"),
		take:    text(d.take, returning),
		extend:  text("UPDATE {table} SET {end} = {greater}({end}, {seconds} + ?) WHERE ", mine, " AND ", live, returning),
		adopt:   text("UPDATE {table} SET {token} = ?, {end} = {greater}({end}, {seconds} + ?) WHERE ", mine, " AND ", live, returning),
		release: text("DELETE FROM {table} WHERE ", mine, " AND ", live),
		clear:   text("DELETE FROM {table} WHERE ", mine),
		evict:   text("DELETE FROM {table} WHERE {id} = ?"),
		list:    text("SELECT {id}, ", row, " FROM {table} WHERE ", live, " ORDER BY {id}"),
		old:     text("SELECT {id}, {token} FROM {table} WHERE {end}{wide} * 1000000 + ? <= {now} LIMIT ", pruneRows),
		prune:   text("DELETE FROM {table} WHERE ", mine, " AND ", over),
	}
	return st
}
