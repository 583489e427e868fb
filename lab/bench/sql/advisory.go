//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

const (
	advisoryPair   = "try and unlock"
	advisoryUpsert = "try, upsert and unlock"
	advisoryBoth   = "try with upsert, and unlock" // the try and the upsert are one statement
	noFence        = "pgadvisory, no fence"
	withFence      = "pgadvisory"
)

// advisory measures how long it takes to acquire and release a free lock with pgadvisory.
func (b *bench) advisory() *measure.Experiment {
	raw := func(tries ...string) func() (measure.Figures, error) {
		return func() (measure.Figures, error) { return b.rawAdvisory(tries) }
	}
	const (
		try    = "SELECT pg_try_advisory_lock($1)"
		upsert = " ON CONFLICT (key) DO UPDATE SET n = t.n + 1 RETURNING true"
	)
	ours := func(opts ...pgadvisory.Option) func() (measure.Figures, error) {
		return func() (measure.Figures, error) { return b.pgadvisoryPair(opts) }
	}
	return &measure.Experiment{
		Name:    "pair, advisory locks",
		Columns: []measure.Column{{Name: "us", Format: "%.1f"}, {Name: "p50 us", Format: "%.1f"}, {Name: "client us", Format: "%.1f"}},
		Rows: []measure.Row{
			{Name: advisoryPair, Run: raw(try)}, {Name: noFence, Run: ours(pgadvisory.NoFences())},
			{Name: advisoryUpsert, Run: raw(try, "INSERT INTO bare_fences AS t VALUES ($1, 1)"+upsert)},
			{Name: advisoryBoth, Run: raw("INSERT INTO bare_fences AS t SELECT $1, 1 WHERE pg_try_advisory_lock($1)" + upsert)},
			{Name: withFence, Run: ours()},
		},
		Base: advisoryPair, Ratio: "p50 us",
		Targets: []measure.Target{
			{Row: noFence, Column: "p50 us", Base: advisoryPair, AtMost: 1.3},
			{Row: withFence, Column: "p50 us", Base: advisoryUpsert, AtMost: 1.3},
			{Row: withFence, Column: "p50 us", Base: advisoryPair, AtMost: 2},
		},
	}
}

// rawAdvisory measures bare statements on one connection: those of tries, and the unlock.
func (b *bench) rawAdvisory(tries []string) (f measure.Figures, err error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, b.pg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS bare_fences (key bigint PRIMARY KEY, n bigint)"); err != nil {
		return nil, err
	}
	return b.time(func(ctx context.Context) error {
		var ok bool
		for _, try := range tries {
			if err := conn.QueryRow(ctx, try, int64(1)).Scan(&ok); err != nil || !ok {
				return fmt.Errorf("try: %v, %w", ok, err)
			}
		}
		return conn.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", int64(1)).Scan(&ok)
	})
}

func (b *bench) pgadvisory(opts ...pgadvisory.Option) (*pgadvisory.Store, error) {
	config, err := pgx.ParseConfig(b.pg)
	if err != nil {
		return nil, err
	}
	return pgadvisory.Open(context.Background(), config, opts...)
}

func (b *bench) pgadvisoryPair(opts []pgadvisory.Option) (f measure.Figures, err error) {
	s, err := b.pgadvisory(opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	n := 0
	return b.time(func(ctx context.Context) error {
		n++
		r := driver.Request{Name: "pair", Token: "token" + strconv.Itoa(n), TTL: time.Minute}
		if _, err := s.Acquire(ctx, r); err != nil {
			return err
		}
		out, err := s.Release(ctx, r.Name, r.Token, 0)
		if err == nil && out != driver.Released {
			err = fmt.Errorf("release found %d", out)
		}
		return err
	})
}

// manyHolds counts the connections that pgadvisory uses to hold many locks at once while nobody
// waits for them.
func (b *bench) manyHolds() *measure.Experiment {
	name := fmt.Sprintf("pgadvisory, %d holds", b.plan.holds)
	return &measure.Experiment{
		Name:    "many advisory locks",
		Columns: []measure.Column{{Name: "connections", Format: "%.0f"}, {Name: "us", Format: "%.1f"}},
		Rows:    []measure.Row{{Name: name, Run: b.hold}},
		Targets: []measure.Target{{Row: name, Column: "connections", AtMost: 4}},
	}
}

func (b *bench) hold() (f measure.Figures, err error) {
	s, err := b.pgadvisory()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	start := time.Now()
	for i := range b.plan.holds {
		r := driver.Request{Name: "hold" + strconv.Itoa(i), Token: "token" + strconv.Itoa(i), TTL: time.Minute}
		if _, err := s.Acquire(context.Background(), r); err != nil {
			return nil, err
		}
	}
	us := float64(time.Since(start).Microseconds()) / float64(b.plan.holds)
	var n float64
	err = b.admin.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'padlock %'").Scan(&n)
	return measure.Figures{"connections": n, "us": us}, err
}
