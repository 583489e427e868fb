//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

const (
	advisoryPair   = "try and unlock"
	advisoryUpsert = "try, upsert and unlock"
	noFence        = "pgadvisory, no fence"
	withFence      = "pgadvisory"
)

// advisory compares pgadvisory with bare statements.
func (b *bench) advisory() *measure.Experiment {
	const (
		try    = "SELECT pg_try_advisory_lock($1)"
		upsert = " ON CONFLICT (key) DO UPDATE SET n = t.n + 1 RETURNING true"
	)
	raw := func(name string, tries ...string) trial.Peer {
		return trial.Peer{Name: name, In: 1, Open: func(*trial.Counter) (*trial.Client, error) { return b.rawAdvisory(tries) }}
	}
	store := func(name string, opts ...pgadvisory.Option) trial.Peer {
		return trial.Peer{Name: name, In: 1, Open: trial.Opens(trial.Driver, func() (*pgadvisory.Store, error) { return b.pgadvisory(opts...) })}
	}
	return b.pair("pair, advisory locks", []trial.Peer{
		raw(advisoryPair, try), store(noFence, pgadvisory.NoFences()),
		raw(advisoryUpsert, try, "INSERT INTO bare_fences AS t VALUES ($1, 1)"+upsert),
		store(withFence),
	}, measure.Target{Row: noFence, Base: advisoryPair, AtMost: 1.3},
		measure.Target{Row: withFence, Base: advisoryUpsert, AtMost: 1.3}, measure.Target{Row: withFence, Base: advisoryPair, AtMost: 2})
}

// rawAdvisory uses bare statements on one connection: those of tries, and the unlock.
func (b *bench) rawAdvisory(tries []string) (*trial.Client, error) {
	conn, err := pgx.Connect(context.Background(), b.pg)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(context.Background(), "CREATE TABLE IF NOT EXISTS bare_fences (key bigint PRIMARY KEY, n bigint)"); err != nil {
		return nil, errors.Join(err, conn.Close(context.Background()))
	}
	end := func() error { return conn.Close(context.Background()) }
	return trial.NewClient(end, func(ctx context.Context, _ string) (func() error, error) {
		var ok bool
		for _, try := range tries {
			if err := conn.QueryRow(ctx, try, int64(1)).Scan(&ok); err != nil || !ok {
				return nil, fmt.Errorf("try: %v, %w", ok, err)
			}
		}
		return func() error { return conn.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", int64(1)).Scan(&ok) }, nil
	}), nil
}

func (b *bench) pgadvisory(opts ...pgadvisory.Option) (*pgadvisory.Store, error) {
	config, err := pgx.ParseConfig(b.pg)
	if err != nil {
		return nil, err
	}
	return pgadvisory.Open(context.Background(), config, opts...)
}
