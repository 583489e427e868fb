package pgadvisory

import (
	"fmt"
	"strconv"
	"strings"
)

// A statement is prepared when a connection uses it for the first time.
type statement struct{ name, sql string }

// index chooses one of two statements.
func index(shared bool) int {
	if shared {
		return 1
	}
	return 0
}

// statements holds the SQL of one store. In each statement, $1 is the key of the lock unless the
// field says otherwise. If a field has two statements, the first one is for an exclusive hold, and
// the second one is for a shared hold.
type statements struct {
	take      [2]statement // $2 FenceAbove, $3 the name, $4 the intent's key; see also Try
	mint      [2]statement // $2 FenceAbove, $3 the name
	raise     statement    // $2 the fence, $3 the name
	toShared  statement
	fence     statement
	names     statement // $1 a prefix
	makeTable []string
	sweepDue  statement // $1 the key of the sweep's own row, $2 microseconds
	// sweep removes one batch of old rows. $1 is the key of the last row of the batch before, $2 is
	// how many microseconds a row is kept, $3 is versionKey, and $4 is the size of the batch.
	sweep statement
}

const maxFence = "9007199254740992"

const tryLock = "pg_try_advisory_lock($1::bigint)"

// tryShared returns the expression that tries to take the lock for a reader. Each name has a second
// lock, called the intent. A reader that waits for its promotion holds the intent. While the intent
// is held, no new reader gets the lock of the name.
func tryShared(intent string) string {
	return "CASE WHEN pg_try_advisory_xact_lock_shared(" + intent + "::bigint) THEN pg_try_advisory_lock_shared($1::bigint) ELSE false END"
}

func newStatements(c *config) statements {
	var s statements
	table, _ := fenceTable(c.schema)
	s.makeTable, _ = Schema(c.schema)
	s.sweepDue, s.sweep = sweepStatements(table)
	for i, shared := range []string{"false", "true"} {
		s.mint[i] = statement{"padlock_mint" + strconv.Itoa(i),
			upsert(table, shared, "$2", "$3", "") + " RETURNING f.fence"}
	}
	// The statement first takes the lock and then mints the fence. An upsert sees the newest row,
	// even if its snapshot is older. The statement returns no row if the lock is held, and maxFence
	// if there is no higher fence.
	s.take[0] = statement{"padlock_take0", "INSERT INTO " + table + " AS f (key, fence, shared, name) SELECT $1::bigint, " +
		newFence("$2") + ", false, $3::bytea WHERE " + tryLock +
		" ON CONFLICT (key) DO UPDATE SET fence = least(" + nextFence + ", " + maxFence + "), shared = false RETURNING true, f.fence"}
	// A reader may join another reader in the same session, so the statement says whether it has
	// taken the lock.
	s.take[1] = statement{"padlock_take1", fmt.Sprintf(
		"WITH l AS MATERIALIZED (SELECT %s AS ok), m AS (%s RETURNING f.fence) SELECT l.ok, m.fence FROM l LEFT JOIN m ON true",
		tryShared("$4"), upsert(table, "true", "$2", "$3", "FROM l WHERE l.ok"))}
	if c.NoFences {
		s.take[0].sql, s.take[1].sql = "SELECT "+tryLock, "SELECT "+tryShared("$2")
	}
	s.raise = statement{"padlock_raise", "INSERT INTO " + table + " AS f (key, fence, shared, name) VALUES ($1::bigint, $2::bigint, false, $3::bytea)" +
		" ON CONFLICT (key) DO UPDATE SET fence = greatest(f.fence, EXCLUDED.fence)"}
	s.toShared = statement{"padlock_shared", "UPDATE " + table + " SET shared = true WHERE key = $1::bigint"}
	s.fence = statement{"padlock_fence", "SELECT fence FROM " + table + " WHERE key = $1::bigint"}
	s.names = statement{"padlock_names", "SELECT encode(f.name, 'hex'), " + holderColumns + ", f.fence FROM " + table + " f JOIN pg_locks l" +
		" ON l.locktype = 'advisory' AND l.objsubid = 1 AND l.classid::bigint << 32 | l.objid::bigint = f.key AND l.granted" + inDatabase +
		" LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE substring(f.name from 1 for length($1::bytea)) = $1::bytea ORDER BY f.name"}
	return s
}

// upsert returns the SQL that mints a fence: microseconds since 1970, or one more than the last
// fence. Readers that hold the lock together share one fence. No row is written if the highest
// possible fence was reached.
func upsert(table, shared, above, name, from string) string {
	joins := shared + " AND f.shared AND f.fence > " + above + "::bigint"
	return "INSERT INTO " + table + " AS f (key, fence, shared, name) SELECT $1::bigint, " + newFence(above) + ", " + shared + ", " + name + "::bytea " + from +
		" ON CONFLICT (key) DO UPDATE SET fence = CASE WHEN " + joins + " THEN f.fence ELSE " + nextFence + " END, shared = EXCLUDED.shared" +
		" WHERE " + joins + " OR " + nextFence + " < " + maxFence
}

// newFence is the fence of a name without a row, and nextFence the one of a name with a row.
func newFence(above string) string {
	return "greatest((date_part('epoch', clock_timestamp()) * 1000000)::bigint, " + above + "::bigint + 1)"
}

const nextFence = "greatest(f.fence + 1, EXCLUDED.fence)"

const (
	holderColumns = "l.pid, l.mode = 'ShareLock', coalesce(a.application_name, '')"
	inDatabase    = " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
	onKey         = " l.locktype = 'advisory' AND l.objsubid = 1 AND l.classid::bigint << 32 | l.objid::bigint = $1::bigint" + inDatabase
)

var (
	ping    = statement{"padlock_ping", "SELECT 1"}
	unlock  = [2]statement{{"padlock_unlock0", "SELECT pg_advisory_unlock($1::bigint)"}, {"padlock_unlock1", "SELECT pg_advisory_unlock_shared($1::bigint)"}}
	holders = statement{"padlock_holders", "SELECT " + holderColumns + " FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.granted AND" + onKey}
	hasLock = statement{"padlock_has", "SELECT count(*) > 0 FROM pg_locks l WHERE l.granted AND l.pid = pg_backend_pid() AND" + onKey}
	// looksFree says whether nobody has the lock or waits for it, and for a reader, whether no
	// writer does.
	looksFree = [2]statement{
		{"padlock_free0", "SELECT count(*) = 0 FROM pg_locks l WHERE" + onKey},
		{"padlock_free1", "SELECT count(*) = 0 FROM pg_locks l WHERE l.mode = 'ExclusiveLock' AND" + onKey},
	}
	// countQueued counts the sessions that wait for the lock, and those in its line, $2.
	countQueued = statement{"padlock_queued", "SELECT (SELECT count(*) FROM pg_locks l WHERE NOT l.granted AND" + onKey + ")" +
		" + (SELECT count(*)" + strings.ReplaceAll(ofLine, "$1", "$2") + " AND p.key < $2::bigint + " + placesText + ")"}
	// countExclusive counts the exclusive locks that this session has, and those that other
	// sessions have.
	countExclusive = statement{"padlock_mine", "SELECT count(*) FILTER (WHERE l.pid = pg_backend_pid()), count(*) FILTER (WHERE l.pid <> pg_backend_pid())" +
		" FROM pg_locks l WHERE l.granted AND l.mode = 'ExclusiveLock' AND" + onKey}

	claimed = statement{"padlock_claimed", "SELECT set_config('idle_session_timeout', $1, false)"} // $1 is in milliseconds

	// promote uses the blocking call, because the server refuses the non-blocking one while a
	// writer waits. It is for servers without PL/pgSQL; see takeSoon.
	promote = statement{"padlock_promote", "SELECT set_config('lock_timeout', '20ms', true), pg_advisory_lock($1::bigint)"}
	// The server evaluates the calls from left to right. So the session releases the shared lock
	// first. $2 is the lock that stands for the intent to be promoted.
	promoted = statement{"padlock_promoted", "SELECT pg_advisory_unlock_shared($1::bigint), pg_advisory_unlock($2::bigint)"}
	demote   = statement{"padlock_demote", "SELECT set_config('lock_timeout', '1s', true), pg_advisory_lock_shared($1::bigint), pg_advisory_unlock($1::bigint)"}
	noIntent = statement{"padlock_nointent", "SELECT pg_try_advisory_xact_lock_shared($1::bigint)"}

	// endBackend ends a session whose connection this process has lost.
	endBackend   = statement{"padlock_end", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1::int AND " + startedAt + " = $2"}
	backendLives = statement{"padlock_lives", "SELECT count(*) FROM pg_stat_activity WHERE pid = $1::int AND " + startedAt + " = $2"}
	// stillLocks returns 0 if a session no longer has the lock and runs no statement. It is for the
	// session of a lost connection behind a pooler, because such a session continues after the
	// client's connection has ended.
	stillLocks = statement{"padlock_still", "SELECT (SELECT count(*) FROM pg_locks l WHERE l.pid = $2::int AND" + onKey + ") + (SELECT count(*) FROM pg_stat_activity WHERE pid = $2::int AND state <> 'idle')"}
)

const (
	startedAt = "extract(epoch FROM backend_start)::text"
)

// sweepStatements returns the statements that remove rows.
func sweepStatements(table string) (due, batch statement) {
	const now = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"
	due = statement{"padlock_due", "INSERT INTO " + table + " AS f (key, fence, shared, name) SELECT $1::bigint, " + now + ", false, 'last sweep of this table'" +
		" ON CONFLICT (key) DO UPDATE SET fence = EXCLUDED.fence WHERE abs(EXCLUDED.fence - f.fence) >= $2::bigint RETURNING 1"}
	// The statement keeps a row if any session has the lock or waits for it, because a reader that
	// joins other readers gets its fence from that row. A reader may also take the lock just after
	// the statement has read pg_locks. Then both write to the row, and either order is safe. If the
	// reader writes first, xmin of the row changes, and the DELETE leaves the row alone. If the
	// DELETE is first, the reader makes a new row.
	batch = statement{"padlock_sweep", "WITH l AS MATERIALIZED (SELECT key, xmin AS x FROM " + table + " WHERE key > $1::bigint AND key <> $3::bigint AND fence < " + now + " - $2::bigint" +
		" ORDER BY key LIMIT $4::bigint)," +
		" d AS (DELETE FROM " + table + " f USING l WHERE f.key = l.key AND f.xmin = l.x AND NOT EXISTS (SELECT FROM pg_locks l WHERE" +
		" l.locktype = 'advisory' AND l.objsubid = 1 AND l.classid::bigint << 32 | l.objid::bigint = f.key" + inDatabase + ") RETURNING 1)" +
		" SELECT (SELECT count(*) FROM d), (SELECT count(*) FROM l), (SELECT max(key) FROM l)"}
	return due, batch
}
