package pgadvisory

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A statement that waits for a lock has a snapshot. CREATE INDEX CONCURRENTLY waits for the end of
// every older snapshot, and VACUUM keeps each row that one of them can see. So a waiter waits in
// slices: short transactions, one after the other. The server's queue knows nothing of the one
// before, so a waiter that comes back would stand at the end.
//
// Therefore the waiters of a lock stand in a line of their own. Each one has a place: a second
// advisory lock, which it keeps between its slices, with a higher number than those that came
// before. It waits for the place in front of its own to become free, where nobody else waits. Only
// the first in line waits for the lock itself. Safety does not depend on the line.
const (
	// waitSlice is less than the deadlock_timeout of most servers, after which log_lock_waits writes
	// to the log.
	waitSlice = 200 * time.Millisecond
	// promotionSlice is how long one try for a promotion waits.
	promotionSlice = 20 * time.Millisecond
	// placeTimeout is how long a waiter may be silent between two slices. Then the server ends the
	// session, so that a process that was stopped gives up its place.
	placeTimeout = "2s"
	// deadWaiter is the longest time for which a waiter that was stopped delays the next one.
	deadWaiter = 3 * time.Second
	// pollPause is the pause of a waiter on a server without PL/pgSQL.
	pollPause = 40 * time.Millisecond
	// places is the size of a line, a power of two: its numbers are base + 1 to base + places - 1.
	places     = 1 << 20
	placesText = "1048576"
)

// A line is where the waiters of one lock stand.
type line struct {
	lock []byte // the number of the lock
	base int64
}

func (d *dialect) line(l advisory.Lock) line {
	return line{[]byte(l.Key), (&keyring{}).hashOf("line", l.Key) &^ (places - 1)}
}

// await returns true when the session has the lock, and false if ctx ends before.
func (n line) await(ctx context.Context, c *conn, shared bool) (granted bool, err error) {
	place, ahead, err := n.enter(ctx, c)
	for ahead != nil && err == nil && ctx.Err() == nil {
		ahead, err = c.slice(ctx, "pg_advisory_xact_lock_shared", ahead, &nextAhead, number(n.base), place)
	}
	wait := [2]string{"pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"}[index(shared)]
	for !granted && err == nil && ctx.Err() == nil {
		var got []byte
		got, err = c.slice(ctx, wait, n.lock, &leaveLine[index(shared)], n.lock, place)
		granted = string(got) == "t"
	}
	return granted, err
}

// enter takes a place at the end of the line. It returns the place in front of it, or nil if there
// is none. A line that is full is no line: the place is 0, and its waiters wait for the lock itself.
func (n line) enter(ctx context.Context, c *conn) (place, ahead []byte, err error) {
	for ctx.Err() == nil {
		rows, err := c.exec(&enterLine, number(n.base))
		switch {
		case err != nil:
			return nil, nil, err
		case rows[0][1] == nil:
			return number(0), nil, nil
		case string(rows[0][2]) == "t": // otherwise another waiter took the place in this moment
			return rows[0][1], rows[0][0], nil
		}
	}
	return number(0), nil, nil
}

// slice waits for a moment for a lock, by calling the function wait, and then runs a statement that
// returns one value. A server without PL/pgSQL gets the statement only.
func (c *conn) slice(ctx context.Context, wait string, lock []byte, then *statement, params ...[]byte) ([]byte, error) {
	if c.plpgsql {
		return c.within(waitSlice, wait, lock, then, params...)
	}
	storekit.Sleep(ctx, pollPause)
	rows, err := c.exec(then, params...)
	if err != nil {
		return nil, err
	}
	return rows[0][0], nil
}

// within waits for a lock for a limited time, by calling the function wait, which takes it for this
// transaction. Whether or not it got the lock, it then runs a statement that returns one value, in
// the same transaction. The server writes nothing into its log.
func (c *conn) within(limit time.Duration, wait string, lock []byte, then *statement, params ...[]byte) ([]byte, error) {
	rows, err := c.execTogether(limit+c.cfg.Limit(),
		call{&prepareWait, [][]byte{[]byte("SELECT " + wait + "(" + string(lock) + ")"), []byte(ms(limit))}},
		call{&waitForLock, nil}, call{then, params})
	if err != nil {
		return nil, err
	}
	return rows[0][0], nil
}

// EndWait implements advisory.Dialect. A slice ends soon. To cancel it would write an error into the
// server's log if the slice had ended just before, and another statement was running.
func (d *dialect) EndWait(_, _ *conn) error { return nil }

const ofLine = " FROM (SELECT l.classid::bigint << 32 | l.objid::bigint AS key FROM pg_locks l WHERE l.locktype = 'advisory'" +
	" AND l.objsubid = 1 AND l.granted AND l.mode = 'ExclusiveLock'" + inDatabase + ") p WHERE p.key > $1::bigint"

var (
	// prepareWait has the statement that waitForLock runs, $1, and its time-out, $2, because DO has
	// no parameters. Its text would otherwise be another for each lock, in all statistics of the
	// server.
	prepareWait = statement{"padlock_prepare", "SELECT set_config('padlock.wait', $1, true), set_config('lock_timeout', $2, true)"}
	// waitForLock catches the errors of a wait, so that they are not in the server's log. Their
	// subtransaction is undone, and a lock that it took is released.
	waitForLock = statement{"padlock_await", "DO $$ BEGIN EXECUTE current_setting('padlock.wait');" +
		" EXCEPTION WHEN lock_not_available OR query_canceled OR deadlock_detected THEN NULL; END $$"}
	tryExclusive = statement{"padlock_try", "SELECT " + tryLock}

	// enterLine returns the last place and its own, or NULL. $1 is the base of the line. From now on
	// the session must not be silent for long.
	enterLine = statement{"padlock_enter", "WITH p AS MATERIALIZED (SELECT max(p.key) AS last, coalesce(max(p.key), $1::bigint) + 1 AS own" +
		ofLine + " AND p.key < $1::bigint + " + placesText + ")," +
		" o AS MATERIALIZED (SELECT last, CASE WHEN own < $1::bigint + " + placesText + " THEN own END AS own FROM p)" +
		" SELECT last, own, pg_try_advisory_lock(own), set_config('idle_session_timeout', '" + placeTimeout + "', false) FROM o"}
	// nextAhead returns the place in front of $2, or NULL.
	nextAhead = statement{"padlock_ahead", "SELECT max(p.key)" + ofLine + " AND p.key < $2::bigint"}
	// leaveLine takes the lock, $1, which the session may have until the end of this transaction,
	// for longer, and gives up the place, $2. If this process is suspended now, it cannot release
	// the lock. So the session must not be silent until it is claimed.
	leaveLine = [2]statement{
		{"padlock_leave0", leave("pg_try_advisory_lock")},
		{"padlock_leave1", leave("pg_try_advisory_lock_shared")},
	}
)

func leave(try string) string {
	return "WITH l AS MATERIALIZED (SELECT " + try + "($1::bigint) AS ok) SELECT CASE WHEN ok THEN" +
		" set_config('idle_session_timeout', '450ms', false) <> '' AND ($2::bigint = 0 OR pg_advisory_unlock($2::bigint)) ELSE false END FROM l"
}
