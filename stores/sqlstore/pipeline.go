package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// A Pipeliner is a Listener that can also send two statements to PostgreSQL at once. A release then
// sends the statement that hands the name over together with the one that notifies the next holder,
// so that the notification need not wait for the first reply.
type Pipeliner interface {
	Listener
	// SendBoth sends two statements on conn, in one write. Each of them is a transaction of its
	// own, and the server runs the second even if the first fails. Parameters and values are in
	// PostgreSQL's text format.
	//
	// SendBoth returns the row of the first statement as values, or nil if that statement returns
	// no row. It returns one error for each statement. If conn cannot do this, SendBoth sends
	// nothing, and the first error is errors.ErrUnsupported.
	SendBoth(ctx context.Context, conn *sql.Conn, one, two Statement) (values []string, first, second error)
}

// A Statement is a statement for PostgreSQL, with its parameters in text format.
type Statement struct {
	Text   string
	Params []string
}

// A hand-over changes a row and then notifies a waiter. It uses two transactions, because one would
// be slow. PostgreSQL lets only one transaction with NOTIFY commit at a time. If that transaction
// had also changed a row, all others would have to wait while it writes to the disk.
//
// Both statements are sent at once, so the second cannot get its parameters from the reply to the
// first. Instead the first statement writes the notifications into a setting of the session, and
// the second statement reads this setting:
//
//	NUMBER|CHANNEL|TEXT|CHANNEL|TEXT
//
// NUMBER is random, and both statements get it as a parameter. If the first statement does nothing,
// the setting is missing or contains another number. The second statement then notifies nobody. A
// CHANNEL is empty if nobody has to be notified: there is no such waiter, or the waiter polls or is
// in this process.

const handedSetting = "padlock.handed"

// announceText returns an SQL expression for the statement "announce". The expression writes the
// notifications into the setting padlock.handed. It has four parameters: NUMBER, the store's own
// channel, the shared channel, and the store's own channel a second time.
func announceText() string {
	hash := func(token string) string { return "encode(substr(sha256(" + token + "), 1, 12), 'hex')" }
	second := "decode(rpad(second->>'t', (length(second->>'t') + 3) / 4 * 4, '='), 'base64')"
	alone := "CASE WHEN second IS NULL THEN ' alone' END"
	return "set_config('" + handedSetting + "', concat(?::text, '|', NULLIF(first->>'c', ?::text), '|', " +
		hash("token") + ", ' ', fence, ' @', since, " + alone +
		", '|', CASE WHEN second->'p' = 'true' THEN NULLIF(COALESCE(second->>'c', ?::text), ?::text) END" +
		", '|- 0 ', " + hash(second) + "), false)"
}

const notifyHanded = "SELECT pg_notify(split_part(s, '|', i), split_part(s, '|', i + 1)) FROM current_setting('" + handedSetting +
	"', true) AS s, (VALUES (2), (4)) AS p (i) WHERE split_part(s, '|', 1) = $1 AND split_part(s, '|', i) <> ''"

// A textRow has the values of a row in PostgreSQL's text format.
type textRow []string

// Scan converts the values. It knows only the types that the statement "handOver" needs.
func (r textRow) Scan(dest ...any) (err error) {
	if len(r) < len(dest) {
		return errors.New("the row has too few values")
	}
	for i, to := range dest {
		switch to := to.(type) {
		case *string:
			*to = r[i]
		case *[]byte:
			if len(r[i]) < 2 {
				return errors.New("a value is not a byte string")
			}
			*to, err = hex.DecodeString(r[i][2:])
		case *int:
			*to, err = strconv.Atoi(r[i])
		case *uint64:
			*to, err = strconv.ParseUint(r[i], 10, 64)
		case *decide.Time:
			*to, err = parseMicros(r[i])
		default:
			return errors.New("a type that textRow does not know")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func parseMicros(text string) (decide.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return decide.Time(n), err
}

func bytesText(b []byte) string { return `\x` + hex.EncodeToString(b) }

// handOverRow runs the statement handOver. The result notified is true if the notifications were
// sent too.
func (t *table) handOverRow(ctx context.Context, name, token string) (r row, notified bool) {
	if t.pipeliner == nil || t.noPipeline.Load() {
		return t.queryRow(ctx, t.sql.contended.handOver, []byte(name), []byte(token)), false
	}
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return failedRow{dbms.NotSent(t.db, err)}, false
	}
	defer conn.Close()
	number := rand.Text()[:16]
	params := []string{bytesText([]byte(name)), bytesText([]byte(token)), number, t.channel, t.shared, t.channel}
	values, first, second := t.pipeliner.SendBoth(ctx, conn, Statement{t.sql.contended.announce, params}, Statement{notifyHanded, []string{number}})
	switch {
	case errors.Is(first, errors.ErrUnsupported):
		t.noPipeline.Store(true)
		conn.Close()
		return t.handOverRow(ctx, name, token)
	case first != nil:
		return failedRow{first}, false
	case values == nil:
		return failedRow{sql.ErrNoRows}, false
	}
	return textRow(values), second == nil
}
