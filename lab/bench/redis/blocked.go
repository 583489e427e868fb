//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// blockedProcs makes n processes wait for one name and measures the work that this causes for the
// server. It counts all requests: those of the holder, those of the waiters, and those that keep
// connections alive.
func (b *bench) blockedProcs(n int) *measure.Experiment {
	return &measure.Experiment{
		Name:    fmt.Sprintf("%d processes blocked for %v", n, b.plan.blocked),
		Columns: []string{"cmds/s", "server us/s"},
		// all commands that clients send
		Targets: []measure.Target{{Row: ours, Column: "cmds/s", AtMost: 10}, {Row: oursString, Column: "cmds/s", AtMost: 10}},
		Rows:    b.rows(blocked, func(p *trial.Peer) (measure.Figures, error) { return b.blockedOnce(p, n) }),
		Most:    1, // the figures are means over the time
	}
}

func (b *bench) blockedOnce(p *trial.Peer, n int) (f measure.Figures, err error) {
	name, holder := trial.NewName(), new(trial.Counter)
	c, locks, err := p.Start(holder, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// With some libraries the lock ends with the context of the call that acquired it.
	ctx, cancel := context.WithTimeout(context.Background(), b.plan.settle+b.plan.blocked+trial.Patience)
	defer cancel()
	unlock, err := locks[0](ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	t, err := p.Waiters(b.rig.addr, name, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.End()) }()
	time.Sleep(b.plan.settle) // until all processes are waiting
	before, err := b.rig.cost(t.Page)
	held := holder.Load()
	if err != nil {
		return nil, err
	}
	time.Sleep(b.plan.blocked)
	after, err := b.rig.cost(t.Page)
	sent := after.sent - before.sent + holder.Load() - held
	_, bad := t.Finish()
	seconds := b.plan.blocked.Seconds()
	return measure.Figures{
		"cmds/s": float64(sent) / seconds, "server us/s": measure.Micros(after.server-before.server) / seconds,
	}, errors.Join(err, bad)
}
