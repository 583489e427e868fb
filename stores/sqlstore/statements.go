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
//	least     0; older builds have an earliest end of the hold here
//	holder    the holder of the hold, in JSON
//	busy      until this time, a grant also reads the column "more"
//	more      the rest of the state in JSON, or empty
//
// An operation that has read a row writes to it only if the version is still the same.
//
// MySQL and PostgreSQL have a second table, of grants. It has one row for each name, which is
// called the row of the last grant.
//
// A program can check a padlock lock in its own transaction (CheckTx), or hold a padlock lock there
// (LockTx). Until the transaction ends, nobody else gets the name:
//
//	                    grant row of PostgreSQL  lock row of PostgreSQL  grant row of MySQL   row of SQLite
//	a grant             FOR UPDATE               FOR UPDATE              writes               writes
//	CheckTx             FOR KEY SHARE            FOR KEY SHARE           LOCK IN SHARE MODE   writes
//	LockTx              FOR UPDATE, writes       FOR KEY SHARE           FOR UPDATE, writes   writes
//	renewal, Release,                            FOR NO KEY UPDATE                            writes
//	Break, a waiter
//
// The "lock row" is the row in the table of locks, and the "grant row" that of the last grant. Two
// steps that use the same row exclude each other, with these exceptions: FOR KEY SHARE goes
// with itself and with FOR NO KEY UPDATE, and LOCK IN SHARE MODE goes with itself. On MySQL a
// renewal writes to the lock row, which transactions leave alone. On SQLite there is only one
// writer.
//
// On PostgreSQL the grant row keeps the name, and the lock row does not. PostgreSQL can forget a
// FOR KEY SHARE lock while another transaction updates the row: if the new version needs another
// page, or a value is stored outside of the row, PostgreSQL lets go of the page for a moment. It
// then writes lock information from before that moment, and a lock that was taken meanwhile is
// gone. TestKeyShareIsForgotten shows it without padlock. Renewals and waiters update the lock row
// at any time. Nobody updates the grant row while another transaction has locked it.
//
// CheckTx and LockTx lock the lock row only after the grant row, to read its current version. If it
// has been granted since the transaction took its snapshot, a transaction that is REPEATABLE READ
// or SERIALIZABLE fails.
//
// LockTx writes to the grant row so that a transaction that works on an older snapshot fails. If
// the name was granted since the last LockTx, it first writes to both rows as a grant does; see
// clearName.

// statements holds the SQL texts of one store. They are made once.
type statements struct {
	load, loadBoth, save, saveGrant, saveBoth, lockGrant string
	ensure, ensureGrant                                  string // make rows; on PostgreSQL, ensure makes both
	list, readGrant                                      string
	awaitWriter                                          string // MySQL only: waits while a statement writes to the row of a name
	acquire, acquireBoth                                 string // saveBoth and acquireBoth write to both tables
	claim, pass, extend, release                         string
	notify                                               [3]string // by the number of notifications
	batch                                                string    // extends the holds in a list
	prune                                                pruneStatements
	records                                              recordStatements
	tx                                                   txStatements
	tryKept                                              string // reads the row of the last grant, unless it is locked
}

// noLockWait makes a MariaDB statement fail instead of waiting for a row that is locked.
const noLockWait = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR "

// setClause is the SET clause of the statement "save".
const setClause = "version = version + 1, fence = ?, token = ?, reserved = ?, since = ?, until = ?, holder = ?, busy = ?, more = ?"

const columns = "name, version, fence, token, reserved, since, until, holder, busy, more"

func newStatements(d *dialect, t tables) statements {
	b := d.bind
	st := statements{
		load: b("SELECT " + columns + ", " + d.now + " FROM " + t.locks + " WHERE name = ?"),
		list: b("SELECT " + columns + ", " + d.now + " FROM " + t.locks + " WHERE name >= ? AND name < ? AND (token <> ? OR busy > (SELECT " + d.now + ")) ORDER BY name LIMIT " + strconv.Itoa(listMost)),
		save: b("UPDATE " + t.locks + " SET " + setClause + " WHERE name = ? AND version = ?"),
	}
	insert := func(table, cols, values string) string {
		return "INSERT INTO " + table + " (" + cols + ") VALUES (" + values + ")" + d.unlessThere("name")
	}
	ensure, ensureGrant := insert(t.locks, columns+", least", "?, 1, 0, ?, 0, "+d.now+", 0, '', 0, '', 0"), insert(t.grants, "name, fence, locked", "?, 0, 0")
	switch d {
	case dialects[PostgreSQL]:
		st.ensure = b("WITH g AS (" + ensureGrant + ") " + ensure)
	case dialects[MySQL]:
		st.ensure, st.ensureGrant = ensure, ensureGrant
	case dialects[SQLite]:
		st.ensure = ensure
	}
	if d.grants {
		st.loadBoth = b("SELECT EXISTS (SELECT 1 FROM " + t.grants + " AS g WHERE g.name = l.name), " + columns + ", " + d.now + " FROM " + t.locks + " AS l WHERE name = ?")
		st.lockGrant = b("SELECT fence FROM " + t.grants + " WHERE name = ?" + d.nowait)
		st.tryKept = b("SELECT fence FROM " + t.grants + " WHERE name = ? FOR UPDATE SKIP LOCKED")
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
		st.saveGrant = b(lockForGrant(t) + ", l AS (UPDATE " + t.locks + " l SET " + setClause + " FROM g WHERE l.name = g.name AND l.version = ? RETURNING l.name) " +
			"SELECT (SELECT count(*) FROM g), (SELECT count(*) FROM l)")
	}
	st.fast(d, t)
	st.batch = newBatchStatement(d, t)
	st.tx = newTxStatements(d, t)
	st.prune = newPruneStatements(d, t)
	st.records = newRecordStatements(d, t)
	return st
}

// lockForGrant returns the beginning of a statement that grants a name. It is a WITH clause, whose
// subquery g locks both rows of the name and returns the name. The subquery waits for other
// writers. It does not wait for a transaction that checks or holds the lock (CheckTx, LockTx). If
// there is such a transaction, the subquery returns no row.
func lockForGrant(t tables) string {
	return "WITH w AS MATERIALIZED (SELECT name FROM " + t.locks + " WHERE name = ? FOR NO KEY UPDATE), " +
		"g AS MATERIALIZED (" + lockBoth(t, "(SELECT name FROM w)") + ")"
}

// lockBoth returns a query of PostgreSQL that locks both rows of a name for a grant, and returns
// the name. If somebody else has locked one of the rows, it returns no row.
func lockBoth(t tables, name string) string {
	return "SELECT l.name FROM " + t.locks + " AS l JOIN " + t.grants + " AS r ON r.name = l.name WHERE l.name = " + name + " FOR UPDATE SKIP LOCKED"
}

// The method fast adds the statements for the most frequent steps: taking a free name, and
// extending or releasing a hold while nobody waits. These statements do not read the column "more",
// which has the queue and the rest of the state. Instead they read the column "busy". If it
// contains a time in the future, the statements that take or release a name change nothing. Those
// that take it only search the column "more" for the token. If the token is there, an earlier hold of
// it has left something that a grant has to remove, and they change nothing.
func (st *statements) fast(d *dialect, t tables) {
	take := "UPDATE " + t.locks + " AS l SET version = l.version + 1, fence = " + d.max("l.fence + 1", d.max("?", d.now)) +
		", token = ?, reserved = 0, since = " + d.now + ", until = " + d.now + " + ?, holder = ?"
	free := "l.token = ? AND l.more NOT LIKE ? AND l.busy <= " + d.now + " AND l.fence < " + strconv.FormatInt(driver.MaxFence-2, 10)
	live := " AND l.reserved = 0 AND l.until > " + d.now
	switch d {
	case dialects[PostgreSQL]:
		row := " AND l.name = (" + lockBoth(t, "?") + ") RETURNING fence"
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
	st.release = d.bind("UPDATE " + t.locks + " SET version = version + 1, token = ?, reserved = 0, since = 0, until = 0, holder = ''" +
		strings.Replace(mine, " AND reserved = 0", "", 1) + " AND busy <= " + d.now)
	claim := "UPDATE " + t.locks + " SET version = version + 1, reserved = 0, since = " + d.now + ", until = " + d.now + " + ?" +
		", holder = ? WHERE name = ? AND token = ? AND reserved = 1 AND until > " + d.now
	if d != dialects[MySQL] {
		st.claim = d.bind(claim + " RETURNING fence")
	}
}
