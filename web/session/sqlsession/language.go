package sqlsession

// language holds the SQL that differs between the kinds of databases.
type language struct {
	name     string
	now      string // the server's time in milliseconds since 1970
	numbered bool   // $1 instead of ? as placeholders
	ignore   [2]string
	sweep    string // deletes one batch of expired rows
	columns  string // the column definitions of CREATE TABLE
	index    string // creates the index on the column "expires"; "" if CREATE TABLE creates the index
}

var languages = map[Dialect]language{
	Postgres: {
		name: "postgres", now: "CAST(extract(epoch from statement_timestamp()) * 1000 AS BIGINT)", numbered: true,
		ignore:  [2]string{"INSERT INTO", " ON CONFLICT (id) DO NOTHING"},
		sweep:   "DELETE FROM {table} WHERE {over} AND id = ANY (ARRAY(SELECT id FROM {table} WHERE {over} LIMIT {batch}))",
		columns: "id VARCHAR(255) PRIMARY KEY, version BIGINT NOT NULL, expires BIGINT NOT NULL, data BYTEA NOT NULL",
		index:   "CREATE INDEX IF NOT EXISTS %s_expires ON %s (expires)",
	},
	MySQL: {
		// UTC, because local time repeats an hour in autumn.
		name: "mysql", now: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
		ignore: [2]string{"INSERT IGNORE INTO", ""},
		sweep:  "DELETE FROM {table} WHERE {over} ORDER BY expires LIMIT {batch}",
		columns: "id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, version BIGINT NOT NULL, expires BIGINT NOT NULL, " +
			"data LONGBLOB NOT NULL, INDEX (expires)",
	},
	SQLite: {
		name: "sqlite", now: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
		ignore:  [2]string{"INSERT INTO", " ON CONFLICT (id) DO NOTHING"},
		sweep:   "DELETE FROM {table} WHERE {over} AND id IN (SELECT id FROM {table} WHERE {over} LIMIT {batch})",
		columns: "id TEXT PRIMARY KEY, version INTEGER NOT NULL, expires INTEGER NOT NULL, data BLOB NOT NULL",
		index:   "CREATE INDEX IF NOT EXISTS %s_expires ON %s (expires)",
	},
}
