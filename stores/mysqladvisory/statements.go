package mysqladvisory

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// Every statement contains its values as text instead of parameters. For a statement with
// parameters, a driver may need two round trips: one to prepare the statement and one to run it. A
// statement without parameters needs only one. Names of locks have no special characters, and other
// texts are written in hexadecimal.

const (
	// now is the server's clock in microseconds since 1970. It does not depend on the time zone of
	// the session.
	now      = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	maxFence = "9007199254740992"

	// The first statement of a session is describe + mark + describeRest. The mark is the name of a
	// lock. GET_LOCK takes that lock, which then identifies the session. The last column of the
	// result identifies the server.
	describe     = "SELECT CONNECTION_ID(), DATABASE(), VERSION(), @@global.read_only, GET_LOCK('"
	describeRest = "', 0), CONCAT_WS(' ', @@hostname, @@port, @@server_id, @@datadir)"
	clusters     = "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'"

	// checkColumns are the last columns of every statement that takes a lock. They show whether the
	// right session has answered and whether the server may grant locks.
	checkColumns = ", CONNECTION_ID(), @@global.read_only"
)

// statements makes the SQL of one store.
type statements struct{ table string }

// setTimeout sets the time after which the server ends an idle session.
func setTimeout(d time.Duration) string {
	return "SET SESSION wait_timeout = " + strconv.Itoa(int(d/time.Second))
}

// setUp makes the settings of the session independent of those of the server and the driver.
// rowWait limits how long a statement waits for the row of a fence, or for a table that somebody
// has locked. Waits, which are long statements, do not fill the slow query log.
func setUp(mariaDB bool, timeout, rowWait time.Duration) string {
	longest := "max_execution_time = 0"
	if mariaDB {
		longest = "max_statement_time = 0"
	}
	seconds := strconv.Itoa(max(1, int(rowWait/time.Second)))
	return setTimeout(timeout) + ", autocommit = 1, innodb_lock_wait_timeout = " + seconds + ", lock_wait_timeout = " + seconds + ", long_query_time = 31536000, " + longest
}

// take returns the statement that tries once to take a lock, or that waits for it. The wait must
// not be negative: MariaDB returns NULL for −1.
func take(key string, wait time.Duration) string {
	return "SELECT GET_LOCK('" + key + "', " + strconv.Itoa(int(wait/time.Second)) + ")" + checkColumns
}

func unlock(key string) string { return "SELECT RELEASE_LOCK('" + key + "')" }

func isFree(key string) string { return "SELECT IS_FREE_LOCK('" + key + "')" }

// owner returns the statement that reads which session has a lock. The result is NULL if no session
// has it.
func owner(key string) string { return "SELECT IS_USED_LOCK('" + key + "')" }

// ping returns the statement that checks whether the server answers, and whether the session that
// answers has the given mark.
func ping(mark string) string {
	return "SELECT IS_USED_LOCK('" + mark + "') = CONNECTION_ID(), @@global.read_only"
}

// checkMine returns a statement that makes the same checks as ping, and also checks that the
// session has a lock.
func checkMine(mark, key string) string {
	return ping(mark) + ", IS_USED_LOCK('" + key + "') = CONNECTION_ID()"
}

func kill(session string) string { return "KILL " + session }

// endWait returns the statement that ends what the session with the given mark is doing.
func endWait(mark string) string { return "KILL QUERY IS_USED_LOCK('" + mark + "')" }

// text returns s as an SQL literal of bytes.
func text(s string) string {
	if s == "" {
		return "''"
	}
	return "x'" + hex.EncodeToString([]byte(s)) + "'"
}

// mint returns the statement that mints a fence for a lock that the session has. The fence is the
// largest of three numbers: the server's clock in microseconds since 1970, the last fence plus one,
// and fenceAbove plus one. The server returns the fence as the last inserted id. If there is no
// higher fence, that id is 0 and the fence in the table stays as it was.
func (s *statements) mint(key string, fenceAbove uint64, name, mark, holder string) string {
	const next = "GREATEST(fence + 1, VALUES(fence))"
	room := next + " < " + maxFence
	return "INSERT INTO " + s.table + " (lock_name, fence, name, session, since, holder) VALUES ('" + key + "', " +
		"LAST_INSERT_ID(GREATEST(" + now + ", " + strconv.FormatUint(fenceAbove+1, 10) + ")), " + text(name) + ", '" + mark + "', " + now + ", " + text(holder) + ")" +
		" ON DUPLICATE KEY UPDATE session = IF(" + room + ", VALUES(session), session), since = VALUES(since), holder = VALUES(holder)," +
		" fence = IF(" + room + ", LAST_INSERT_ID(" + next + "), fence + LAST_INSERT_ID(0))"
}

// raiseFence makes the statement that raises the fence of a lock to at least minFence. The
// statement never lowers a fence. The session must have the lock.
func (s *statements) raiseFence(key string, minFence uint64, name, mark, holder string) string {
	return "INSERT INTO " + s.table + " (lock_name, fence, name, session, since, holder) VALUES ('" + key + "', " +
		strconv.FormatUint(minFence, 10) + ", " + text(name) + ", '" + mark + "', " + now + ", " + text(holder) + ")" +
		" ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))"
}

// fence reads the fence of a lock.
func (s *statements) fence(key string) string {
	return "SELECT fence FROM " + s.table + " WHERE lock_name = '" + key + "'"
}

// holderColumns is a list of columns about the holder of a lock:
//
//   - the fence
//   - the holder
//   - how many microseconds ago the holder got the lock
//   - the number of the holder's session
//
// The first three come from the row f, which a holder writes when it gets the lock. f.session is
// the mark of the holder's session, a lock that only this session has. So IS_USED_LOCK returns the
// number of the session that wrote the row. If another session has the lock now, the row describes
// an earlier holder.
//
// If there is no row, f.session is NULL. MySQL does not allow NULL as the name of a lock, so
// IS_USED_LOCK gets '-'.
const holderColumns = ", f.fence, f.holder, " + now + " - f.since, IS_USED_LOCK(COALESCE(f.session, '-'))"

// holder reads the holder of a lock.
func (s *statements) holder(key string) string {
	return "SELECT IS_USED_LOCK('" + key + "')" + holderColumns + " FROM (SELECT 1) one LEFT JOIN " + s.table + " f ON f.lock_name = '" + key + "'"
}

// holdersOf makes the statement that reads the holders of all locks whose names begin with a
// prefix.
func (s *statements) holdersOf(prefix string) string {
	return "SELECT IS_USED_LOCK(f.lock_name) owner" + holderColumns + ", f.name FROM " + s.table + " f" +
		" WHERE LEFT(f.name, " + strconv.Itoa(len(prefix)) + ") = " + text(prefix) + " HAVING owner IS NOT NULL ORDER BY f.name"
}

// dueSweep returns the statement that begins a sweep of the table. It writes the server's time to
// the table, and returns that time as the last inserted id. If the last sweep began less than
// "every" ago, the statement records no time, and the last inserted id is 0.
func (s *statements) dueSweep(every time.Duration) string {
	return "INSERT INTO " + s.table + " (lock_name, fence, name, session, since, holder) VALUES ('" + sweepRow + "', LAST_INSERT_ID(" + now + "), 'last sweep of this table', '-', 0, '')" +
		" ON DUPLICATE KEY UPDATE fence = IF(ABS(VALUES(fence) - fence) >= " + strconv.FormatInt(every.Microseconds(), 10) + ", LAST_INSERT_ID(VALUES(fence)), fence + LAST_INSERT_ID(0))"
}

// olderThan returns the condition for rows whose fence is older than age.
func olderThan(age time.Duration) string {
	return "fence < " + now + " - " + strconv.FormatInt(age.Microseconds(), 10)
}

// oldRows returns the statement that reads the next batch of old rows. For each row, the statement
// also reads whether the lock is free.
func (s *statements) oldRows(after string, batch int, keep time.Duration) string {
	return "SELECT lock_name, IS_FREE_LOCK(lock_name) FROM " + s.table + " WHERE lock_name > " + text(after) + " AND lock_name <> '" + versionRow + "' AND " + olderThan(keep) +
		" ORDER BY lock_name LIMIT " + strconv.Itoa(batch)
}

// removeRows returns the statement that removes the rows of the given locks. After the list of
// locks was made, a process may have taken one of them and minted a fence in its row. So the
// statement checks the age of each row again, and removes only old ones. A process that mints a
// fence after the removal makes a new row.
func (s *statements) removeRows(locks []string, keep time.Duration) string {
	var list []string
	for _, l := range locks {
		list = append(list, text(l))
	}
	return "DELETE FROM " + s.table + " WHERE lock_name IN (" + strings.Join(list, ", ") + ") AND " + olderThan(keep)
}

// hostOf reads the host of a session, if the user may see that session.
func hostOf(session string) string {
	return "SELECT host FROM information_schema.processlist WHERE id = " + session
}

const statusQuery = "SELECT VERSION(), @@global.read_only, @@global.max_connections"
