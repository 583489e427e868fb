//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// pair measures how long it takes to acquire and release a name that nobody else wants. The first
// peer is the base.
func (b *bench) pair(name string, peers []trial.Peer, targets ...measure.Target) *measure.Experiment {
	for i := range targets {
		targets[i].Column = "p50 us"
	}
	return &measure.Experiment{
		Name: name, Columns: trial.PairColumns, Base: peers[0].Name, Ratio: "p50 us", Targets: targets,
		Rows: trial.Rows(peers, 1, func(p *trial.Peer) (measure.Figures, error) { return p.Pairs(1, b.plan.trial, nil) }),
	}
}

// tables compares locks in tables with the bare statements.
func (b *bench) tables(e sqlstore.Engine) *measure.Experiment {
	peer := func(name string, open func(*sql.DB) (*trial.Client, error)) trial.Peer {
		return trial.Peer{Name: name, In: 1, Open: func(*trial.Counter) (*trial.Client, error) {
			db, err := b.open(e, 4)
			if err != nil {
				return nil, err
			}
			c, err := open(db)
			if err != nil {
				return nil, errors.Join(err, db.Close())
			}
			end := c.Close
			c.Close = func() error { return errors.Join(end(), db.Close()) }
			return c, nil
		}}
	}
	peers := []trial.Peer{
		peer(bare, func(db *sql.DB) (*trial.Client, error) { return bareLease(db, e, false) }),
		peer(ours, func(db *sql.DB) (*trial.Client, error) {
			s, err := sqlstore.Open(context.Background(), db, e)
			if err != nil {
				return nil, err
			}
			return trial.Driver(s), nil
		}),
	}
	if e == sqlstore.PostgreSQL {
		peers = append(peers, peer("SKIP LOCKED by hand", func(db *sql.DB) (*trial.Client, error) { return bareLease(db, e, true) }))
	}
	return b.pair("pair, "+e.String(), peers, measure.Target{Row: ours, Base: bare, AtMost: 1.3})
}
