//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// bareLease prepares the simplest possible lease that has a fence. Two prepared statements take it
// and give it back: both update one row and use
// the server's clock. If skip is true, the first statement skips the row while another statement
// has it locked, as many hand-written leases do.
func bareLease(db *sql.DB, e sqlstore.Engine, skip bool) (*trial.Client, error) {
	clock, params := "(date_part('epoch', clock_timestamp()) * 1000000)::bigint", []any{"$1", "$2", "$3", "$4"}
	blob := "bytea"
	if e == sqlstore.SQLite {
		clock, params, blob = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000", []any{"?1", "?2", "?3", "?4"}, "blob"
	}
	text := "CREATE TABLE IF NOT EXISTS bare (name " + blob + " PRIMARY KEY, fence bigint NOT NULL, token " + blob + " NOT NULL, ends bigint NOT NULL, holder text NOT NULL)"
	if _, err := db.Exec(text); err != nil {
		return nil, err
	}
	text = fmt.Sprintf("INSERT INTO bare VALUES (%[1]s, 0, %[2]s, 0, '') ON CONFLICT (name) DO UPDATE SET token = excluded.token", params...)
	if _, err := db.Exec(text, []byte("name"), []byte{}); err != nil {
		return nil, err
	}
	row := "%[4]s"
	if skip {
		row = "(SELECT name FROM bare WHERE name = %[4]s FOR UPDATE SKIP LOCKED)"
	}
	take, err := db.Prepare(fmt.Sprintf("UPDATE bare SET fence = fence + 1, token = %[1]s, ends = "+clock+" + %[2]s, holder = %[3]s WHERE name = "+row+" AND length(token) = 0 RETURNING fence", params...))
	if err != nil {
		return nil, err
	}
	give, err := db.Prepare(fmt.Sprintf("UPDATE bare SET token = %[1]s, ends = 0, holder = '' WHERE name = %[2]s AND token = %[3]s AND ends > "+clock, params[:3]...))
	if err != nil {
		return nil, err
	}
	return trial.NewClient(func() error { return nil }, func(ctx context.Context, _ string) (func() error, error) {
		var fence int64
		err := take.QueryRowContext(ctx, []byte("token"), int64(60_000_000), "host.example 4711", []byte("name")).Scan(&fence)
		return func() error {
			_, err := give.ExecContext(ctx, []byte{}, []byte("name"), []byte("token"))
			return err
		}, err
	}), nil
}

// hopRow returns the name of a row in the report. The row shows the result of [bench.hop] with n
// processes.
func hopRow(n int) string { return fmt.Sprintf("bare NOTIFY and two updates: %d", n) }

// hop measures the shortest possible hand-over among n processes in a ring. Each process has one
// connection for statements and another one on which it listens. A process updates a row of a table
// and notifies the next process, which updates the same row and notifies its successor, and so on.
func (b *bench) hop(n int) (f measure.Figures, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var work, ears []*pgx.Conn
	defer func() {
		for _, c := range append(work, ears...) {
			err = errors.Join(err, c.Close(context.Background()))
		}
	}()
	for i := range n {
		for _, list := range []*[]*pgx.Conn{&work, &ears} {
			c, err := pgx.Connect(ctx, b.pg)
			if err != nil {
				return nil, err
			}
			*list = append(*list, c)
		}
		if _, err := ears[i].Exec(ctx, fmt.Sprintf("LISTEN hop_%d", i)); err != nil {
			return nil, err
		}
	}
	for _, text := range []string{
		"CREATE TABLE IF NOT EXISTS hops (name text PRIMARY KEY, fence bigint)",
		"INSERT INTO hops VALUES ('name', 0) ON CONFLICT (name) DO NOTHING",
	} {
		if _, err := work[0].Exec(ctx, text); err != nil {
			return nil, err
		}
	}
	const update = "UPDATE hops SET fence = fence + 1 WHERE name = $1"
	at := 0
	f, err = trial.Repeat(b.plan.trial, nil, func() error {
		next := (at + 1) % n
		_, first := work[at].Exec(ctx, update, "name")
		_, second := work[at].Exec(ctx, "SELECT pg_notify($1, $2)", fmt.Sprintf("hop_%d", next), "payload")
		_, third := ears[next].WaitForNotification(ctx)
		_, fourth := work[next].Exec(ctx, update, "name")
		at = next
		return errors.Join(first, second, third, fourth)
	})
	if err != nil {
		return nil, err
	}
	return measure.Figures{"hand p50 us": f["p50 us"], "total_ms": f["us"] * float64(b.plan.waiters) / 1000, "statements": 3}, nil
}
