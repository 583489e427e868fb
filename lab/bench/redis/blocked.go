//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// blockedProcs makes n processes wait for one name and measures the work that this causes for the
// server. It counts all requests: those of the holder, those of the waiters, and those that keep
// connections alive.
func (b *bench) blockedProcs(n int) *measure.Experiment {
	e := &measure.Experiment{
		Name: fmt.Sprintf("%d processes blocked for %v", n, b.plan.blocked),
		Columns: []measure.Column{
			{Name: "cmds/s", Format: "%.1f"}, {Name: "calls/s", Format: "%.1f"}, {Name: "server us/s", Format: "%.0f"},
		},
		Targets: blockedTargets,
	}
	b.fill(e, blocked, func(c *contestant) (measure.Figures, error) { return b.blockedOnce(c, n) })
	return e
}

func (b *bench) blockedOnce(c *contestant, n int) (f measure.Figures, err error) {
	name := b.name("blocked")
	holder := new(page)
	o, err := c.openFor(b.rig, site{b.rig.addr, &holder.sent[0]}, b.name("warm"), name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if err := c.ready(b.rig, name); err != nil {
		return nil, err
	}
	// With some libraries the lock ends with the context of the call that acquired it.
	ctx, cancel := context.WithTimeout(context.Background(), b.plan.settle+b.plan.blocked+patience)
	defer cancel()
	unlock, err := o.lockers[0].Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	t, err := b.startTroop(&contestant{name: c.name}, name, n, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	time.Sleep(b.plan.settle) // until all processes are waiting
	before, err := b.rig.cost(t.page)
	held := holder.sent[0].Load()
	if err != nil {
		return nil, err
	}
	time.Sleep(b.plan.blocked)
	after, err := b.rig.cost(t.page)
	sent := after.sent - before.sent + holder.sent[0].Load() - held
	_, bad := t.finish()
	seconds := b.plan.blocked.Seconds()
	return measure.Figures{
		"cmds/s": float64(sent) / seconds, "calls/s": (after.calls - before.calls) / seconds,
		"server us/s": micros(after.server-before.server) / seconds,
	}, errors.Join(err, bad)
}
