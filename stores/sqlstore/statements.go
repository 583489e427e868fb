package sqlstore

import (
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// The table of locks has one row for each name. All times are in microseconds since 1970, by the
// server's clock.
//
//	name      the name
//	version   one higher after each change
//	fence     the highest fence minted for the name
//	token     the token of the exclusive hold or reservation, or empty
//	reserved  1 if that token has an unclaimed reservation
//	since     when the hold began; if the row was never used, when the row was made
//	until     when the lease of the hold ends
//	least     the name stays taken until this time
//	holder    the holder of the hold, in JSON
//	busy      until this time, a grant also reads the column "more"
//	more      the rest of the state in JSON, or empty
//
// An operation that has read a row writes to it only if the version is still the same.
//
// MySQL and PostgreSQL have a second table, of grants. It has one row for each name, which is
// called the row of the last grant.
//
// A program can check a padlock lock in its own transaction (CheckTx). The transaction then locks a
// row in the database, and every grant of the name needs the same row. So nobody else gets the name
// until the transaction ends:
//
//	engine      a grant                              CheckTx
//	PostgreSQL  locks the row FOR UPDATE             locks the row FOR KEY SHARE
//	MySQL       writes to the row of the last grant  locks the row of the last grant
//	SQLite      writes, as only one writer can       writes
//
// On PostgreSQL and MySQL, renewal, Release and Break do not wait for the transaction. On SQLite,
// every write waits for it.
//
// A program can also hold a padlock lock in its own transaction (LockTx). LockTx locks the same row
// as CheckTx, and also writes to the row of the last grant. So two transactions with LockTx exclude
// each other. A transaction that works on an older snapshot fails when it writes.

// statements holds the SQL texts of one store. They are made once.
type statements struct {
	load, ensure, ensureGrant, save, saveGrant, saveBoth, lockGrant string
	list, readGrant                                                 string
	awaitWriter                                                     string // MySQL only: waits while a statement writes to the row of a name
	acquire, acquireBoth                                            string // saveBoth and acquireBoth write to both tables
	claim, pass, extend, release                                    string
	notify                                                          [3]string // by the number of notifications
	contended                                                       contendedStatements
	batch                                                           batchStatements
	prune                                                           pruneStatements
	records                                                         recordStatements
	tx                                                              txStatements
}

// noLockWait makes a MariaDB statement fail instead of waiting for a row that is locked.
const noLockWait = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR "

// setClause is the SET clause of the statement "save".
const setClause = "version = version + 1, fence = ?, token = ?, reserved = ?, since = ?, until = ?, least = ?, holder = ?, busy = ?, more = ?"

const columns = "name, version, fence, token, reserved, since, until, least, holder, busy, more"

func newStatements(d *dialect, t tables) statements {
	b := d.bind
	st := statements{
		load: b("SELECT " + columns + ", " + d.now + " FROM " + t.locks + " WHERE name = ?"),
		list: b("SELECT " + columns + ", " + d.now + " FROM " + t.locks + " WHERE name >= ? AND (token <> ? OR busy > " + d.now + ") ORDER BY name"),
		save: b("UPDATE " + t.locks + " SET " + setClause + " WHERE name = ? AND version = ?"),
	}
	insert := func(table, cols, values string) string {
		if d == dialects[MySQL] {
			return b("INSERT INTO " + table + " (" + cols + ") VALUES (" + values + ") ON DUPLICATE KEY UPDATE name = name")
		}
		return b("INSERT INTO " + table + " (" + cols + ") VALUES (" + values + ") ON CONFLICT (name) DO NOTHING")
	}
	st.ensure = insert(t.locks, columns, "?, 1, 0, ?, 0, "+d.now+", 0, 0, '', 0, ''")
	if d.grants {
		st.ensureGrant = insert(t.grants, "name, fence, locked", "?, 0, 0")
		st.lockGrant = b("SELECT fence FROM " + t.grants + " WHERE name = ?" + d.nowait)
		st.readGrant = b("SELECT fence FROM " + t.grants + " WHERE name = ?")
	}
	if d == dialects[MySQL] {
		set := strings.ReplaceAll(", "+setClause, ", ", ", l.")
		st.saveBoth = "UPDATE " + t.grants + " g STRAIGHT_JOIN " + t.locks + " l ON l.name = g.name SET " +
			strings.TrimPrefix(set, ", ") + ", g.fence = " + d.max("g.fence + 1", "?") + " WHERE g.name = ? AND l.version = ?"
		st.awaitWriter = "SELECT version FROM " + t.locks + " WHERE name = ? " + d.share
	}
	if d == dialects[PostgreSQL] {
		st.notify = [3]string{"", "SELECT pg_notify($1, $2)", "SELECT pg_notify($1, $2), pg_notify($3, $4)"}
		st.saveGrant = b(lockForGrant(t, "name") + ", l AS (UPDATE " + t.locks + " l SET " + setClause + " FROM g WHERE l.name = g.name AND l.version = ? RETURNING l.name) " +
			"SELECT (SELECT count(*) FROM g), (SELECT count(*) FROM l)")
	}
	st.fast(d, t)
	st.contended = newContendedStatements(d, t)
	st.batch = newBatchStatements(d, t)
	st.tx = newTxStatements(d, t)
	st.prune = newPruneStatements(d, t)
	st.records = newRecordStatements(d, t)
	return st
}

// The method fast adds the statements for the most frequent steps: taking a free name, and
// extending or releasing a hold while nobody waits. These statements do not read the column "more",
// which has the queue and the rest of the state. Instead they read the column "busy". If it
// contains a time in the future, the statements that take or release a name change nothing.
func (st *statements) fast(d *dialect, t tables) {
	take := "UPDATE " + t.locks + " AS l SET version = l.version + 1, fence = " + d.max("l.fence + 1", d.max("?", d.now)) +
		", token = ?, reserved = 0, since = " + d.now + ", until = " + d.now + " + ?, least = CASE WHEN ? > 0 THEN " + d.now + " + ? ELSE 0 END, holder = ?"
	free := "l.token = ? AND l.busy <= " + d.now + " AND l.fence < " + strconv.Itoa(driver.MaxFence-2)
	live := " AND l.reserved = 0 AND l.until > " + d.now + " AND l.least <= " + d.now
	switch d {
	case dialects[PostgreSQL]:
		row := " AND l.name = (SELECT name FROM " + t.locks + " WHERE name = ? FOR UPDATE SKIP LOCKED) RETURNING fence"
		st.acquire, st.pass = d.bind(take+" WHERE "+free+row), d.bind(take+" WHERE "+free+live+row)
	case dialects[SQLite]:
		row := " AND l.name = ? RETURNING fence"
		st.acquire, st.pass = take+" WHERE "+free+row, take+" WHERE "+free+live+row
	case dialects[MySQL]:
		// The statement returns the new fence as LAST_INSERT_ID.
		both := strings.Replace(take, " AS l SET ", " AS l JOIN "+t.grants+" AS g ON g.name = l.name SET ", 1)
		fence := d.max("l.fence + 1", d.max("?", d.now))
		both = strings.Replace(both, "fence = "+fence, "l.fence = LAST_INSERT_ID("+fence+")", 1)
		both = strings.Replace(both, "SET version", "SET l.version", 1)
		st.acquireBoth = noLockWait + both + ", g.fence = " + d.max("g.fence + 1", d.max("?", d.now)) + " WHERE " + free + " AND l.name = ?"
	}
	mine := " WHERE name = ? AND token = ? AND reserved = 0 AND until > " + d.now
	st.extend = d.bind("UPDATE " + t.locks + " SET version = version + 1, until = " + d.max("until", d.now+" + ?") + mine)
	st.release = d.bind("UPDATE " + t.locks + " SET version = version + 1, token = ?, reserved = 0, since = 0, until = 0, least = 0, holder = ''" +
		strings.Replace(mine, " AND reserved = 0", "", 1) + " AND least <= " + d.now + " AND busy <= " + d.now)
	claim := "UPDATE " + t.locks + " SET version = version + 1, reserved = 0, since = " + d.now + ", until = " + d.now + " + ?" +
		", least = CASE WHEN ? > 0 THEN " + d.now + " + ? ELSE 0 END, holder = ? WHERE name = ? AND token = ? AND reserved = 1 AND until > " + d.now
	if d != dialects[MySQL] {
		st.claim = d.bind(claim + " RETURNING fence, busy > " + d.now)
	}
}

// txStatements are the statements that run in the caller's transactions. They use the row in the
// table of grants, with two exceptions. The field "share" on PostgreSQL and the field "write" on
// SQLite use the row in the table of locks.
type txStatements struct {
	plain string // reads the row as the transaction sees it; "" if not needed
	share string // reads and locks the row, so that nobody gets the name until the transaction ends
	write string // makes a new version of the row
	own   string // reads the row and locks it for this transaction alone
}

func newTxStatements(d *dialect, t tables) txStatements {
	b := d.bind
	switch d {
	case dialects[PostgreSQL]:
		return txStatements{
			share: b("SELECT fence, 0 FROM " + t.locks + " WHERE name = ? FOR KEY SHARE"),
			own:   b("SELECT fence, locked FROM " + t.grants + " WHERE name = ? FOR UPDATE SKIP LOCKED"),
			write: b("UPDATE " + t.grants + " SET locked = locked + 1 WHERE name = ?"),
		}
	case dialects[MySQL]:
		return txStatements{
			plain: "SELECT fence, locked FROM " + t.grants + " WHERE name = ?",
			share: "SELECT fence, locked FROM " + t.grants + " WHERE name = ? " + d.share,
			own:   "SELECT fence, locked FROM " + t.grants + " WHERE name = ? FOR UPDATE SKIP LOCKED",
			write: "UPDATE " + t.grants + " SET locked = locked + 1 WHERE name = ?",
		}
	}
	return txStatements{write: "UPDATE " + t.locks + " SET fence = fence WHERE name = ?"}
}
