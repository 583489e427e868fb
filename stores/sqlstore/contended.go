package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// contendedStatements has the statements for a name that others wait for. The functions of state.go
// load the row, change it and save it. They start again if another process wrote to the row
// meanwhile. A contended statement makes its change inside the server, where nobody can interfere.
// Only PostgreSQL has these statements, because NOTIFY makes hand-overs frequent there.
//
// The statement handOver has the effect of state.release and state.handOver. It has these
// conditions:
//
//   - the token has a live exclusive hold or reservation
//   - no transaction keeps the name
//   - the first waiter is a live writer, and the database wakes it on a channel of its own
//
// The statement enqueue has the effect of state.join. Its condition is that another token has a
// live exclusive hold or a reservation.
//
// If the conditions are not met, the statement changes nothing. The caller then uses state.go.
//
// The statement handOver locks rows in two steps:
//
//  1. The lock row FOR NO KEY UPDATE, as every UPDATE does. This step waits until no process writes
//     to the row.
//  2. Both rows FOR UPDATE, as every grant does. If a transaction (CheckTx or LockTx) has locked
//     them, this step does not wait, and skips the rows.
type contendedStatements struct {
	handOver string
	announce string // like handOver; also stores the notifications that notifyHanded sends
	enqueue  string
}

func newContendedStatements(d *dialect, t tables) (st contendedStatements) {
	if d == dialects[PostgreSQL] {
		st.handOver = handOverText(d, t, "")
		st.announce = handOverText(d, t, ", "+announceText())
		st.enqueue = enqueueText(d, t)
	}
	return st
}

// lockForGrant returns the beginning of a statement that grants a name. It is a WITH clause, whose
// subquery g locks both rows of the name and returns columns of the lock row l. The subquery waits
// for other writers. It does not wait for a transaction that checks or holds the lock (CheckTx,
// LockTx). If there is such a transaction, the subquery returns no row.
func lockForGrant(t tables, columns string) string {
	return "WITH w AS MATERIALIZED (SELECT name FROM " + t.locks + " WHERE name = ? FOR NO KEY UPDATE), " +
		"g AS MATERIALIZED (" + lockBoth(t, columns, "(SELECT name FROM w)") + ")"
}

// lockBoth returns a query of PostgreSQL that locks both rows of a name for a grant, and returns
// columns of the lock row l. If somebody else has locked one of the rows, it returns no row.
func lockBoth(t tables, columns, name string) string {
	return "SELECT " + columns + " FROM " + t.locks + " AS l JOIN " + t.grants + " AS r ON r.name = l.name WHERE l.name = " + name + " FOR UPDATE SKIP LOCKED"
}

// handOverText makes the statement handOver. The parameter moreResults is SQL text for the end of
// the RETURNING clause. The statement uses these names:
//
//	m       the queue and the rest of the state, from the column "more" of the row
//	first   the place of the first waiter
//	second  the place of the second waiter, or NULL
//	now     the time, read after the row was locked
func handOverText(d *dialect, t tables, moreResults string) string {
	return d.bind(lockForGrant(t, "l.name, NULLIF(l.more, '')::jsonb AS m") +
		", f AS MATERIALIZED (SELECT name, m, m->'queue'->0 AS first, m->'queue'->1 AS second, " + d.now + " AS now FROM g)" +
		" UPDATE " + t.locks + " AS l SET version = version + 1" +
		", fence = GREATEST(fence + 1, COALESCE((first->>'a')::bigint, 0) + 1, now)" +
		", token = decode(rpad(first->>'t', (length(first->>'t') + 3) / 4 * 4, '='), 'base64'), reserved = 1" +
		", since = now, until = now + " + inMicros(driver.MaxReservation) + ", least = 0, holder = (first->'h')::text" +
		", busy = CASE WHEN second IS NULL AND m->'spent' IS NULL THEN 0 ELSE busy END" +
		", more = ((m #- '{queue,0}') - 'free')::text" +
		" FROM f WHERE l.name = f.name AND token = ? AND until > now AND least <= now" +
		" AND fence < " + strconv.Itoa(driver.MaxFence-2) +
		" AND m->'holds' IS NULL AND m->'intent' IS NULL AND COALESCE((m->>'cool')::bigint, 0) <= now" +
		" AND first->>'c' <> '' AND first->'s' IS NULL" +
		" AND (first->>'u')::bigint > now AND (first->>'u')::bigint <= now + " + inMicros(placeFor) +
		" RETURNING token, fence, since, first->>'c', COALESCE(second::text, '')" + moreResults)
}

func enqueueText(d *dialect, t tables) string {
	end := d.now + " + " + inMicros(placeFor)
	return d.bind("WITH w AS MATERIALIZED (SELECT name AS n, COALESCE(NULLIF(more, ''), '{}')::jsonb AS m FROM " + t.locks + " WHERE name = ? FOR NO KEY UPDATE)" +
		" UPDATE " + t.locks + " SET version = version + 1, busy = GREATEST(busy, " + end + ")" +
		", more = jsonb_set(m, '{queue}', COALESCE(m->'queue', '[]') || jsonb_set(?::jsonb, '{u}', to_jsonb(" + end + ")))::text" +
		" FROM w WHERE name = n AND token <> ? AND token <> ? AND until > " + d.now + " AND NOT COALESCE(m->'queue', '[]') @> ?::jsonb" +
		" RETURNING jsonb_array_length(COALESCE(m->'queue', '[]')), name, version, fence, token, reserved, since, until, least, '', busy" +
		", CASE WHEN ?::boolean THEN (m - 'queue')::text ELSE more END, " + d.now)
}

func inMicros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// handOver reserves the name for the first waiter in the queue, in one statement. It ends the
// exclusive hold of the token. If a waiter releases the name before it claims its reservation, the
// token has no hold. Then handOver ends the reservation.
//
// handOver returns the reservation, and the place of the waiter behind, or nil. It returns no
// reservation if nothing was changed.
func (t *table) handOver(ctx context.Context, name, token string) (to *reservation, next *place, err error) {
	if t.sql.contended.handOver == "" {
		return nil, nil, nil
	}
	found, notified := t.handOverRow(ctx, name, token)
	var first []byte
	var behind string
	to = &reservation{notified: notified}
	err = found.Scan(&first, &to.fence, &to.since, &to.to.channel, &behind)
	switch {
	case errors.Is(err, sql.ErrNoRows), err != nil && judge(err) != unknown:
		return nil, nil, nil
	case err != nil:
		return nil, nil, failure(ctx, err, true)
	}
	to.to.token, to.to.push = opaque(first), true
	if behind == "" {
		return to, nil, nil
	}
	next = &place{}
	if err := json.Unmarshal([]byte(behind), next); err != nil {
		return to, nil, nil // the second waiter is not notified, but it looks from time to time
	}
	to.next = next.address()
	return to, next, nil
}

// enqueue gives the request a place at the end of the queue, in one statement. It returns the
// number of places before the new one, and the state of the name without the holder. The state
// contains the queue only if the waiter polls. The result ok is false if nothing was changed.
func (t *table) enqueue(ctx context.Context, r *driver.Request, push string) (st *state, position int, now decide.Time, ok bool, err error) {
	if t.sql.contended.enqueue == "" {
		return nil, 0, 0, false, nil
	}
	mine, err := asciiJSON(newPlace(r, push, 0))
	if err != nil {
		return nil, 0, 0, false, err
	}
	same, err := json.Marshal([]struct {
		Token opaque `json:"t"`
	}{{opaque(r.Token)}})
	if err != nil {
		return nil, 0, 0, false, err
	}
	_, st, now, err = scan(t.queryRow(ctx, t.sql.contended.enqueue, []byte(r.Name), string(mine), []byte{}, []byte(r.Token), string(same), push != ""), &position)
	switch {
	case errors.Is(err, sql.ErrNoRows), err != nil && judge(err) != unknown:
		return nil, 0, 0, false, nil
	case err != nil:
		return nil, 0, 0, false, failure(ctx, err, true)
	}
	return st, position, now, true, nil
}
