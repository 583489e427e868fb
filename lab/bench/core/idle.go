//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/memstore"
)

// idleHolds counts how often a process that only holds locks wakes up. Each wake-up costs energy,
// which matters for a laptop's battery. The measure is the number of context switches of all
// threads. The first 60 are not counted, because the runtime causes them.
func idleHolds(p *plan) *measure.Experiment {
	const ours = "padlock over memstore"
	return &measure.Experiment{
		Name: fmt.Sprintf("memory, %d idle holds for %v", p.idleHolds, p.idle), Most: 1,
		Columns: []measure.Column{
			{Name: "switches", Format: "%.0f"}, {Name: "renewals", Format: "%.0f"},
			{Name: "(switches-60)/renewal", Format: "%.2f"}, {Name: "cpu us/renewal", Format: "%.1f"},
		},
		Rows:    []measure.Row{{Name: ours, Run: p.watchIdle}},
		Targets: []measure.Target{{Row: ours, Column: "(switches-60)/renewal", AtMost: 3}},
	}
}

func (p *plan) watchIdle() (measure.Figures, error) {
	ttl := p.idleTTL
	if ttl == 0 {
		ttl = padlock.DefaultTTL
	}
	l := padlock.New(memstore.New(), padlock.TTL(ttl))
	if _, err := takeMany(l, p.idleHolds); err != nil {
		return nil, err
	}
	before, renewals := measure.Used(), l.Stats().Renewals
	time.Sleep(p.idle)
	after, s := measure.Used(), l.Stats()
	if s.Lost > 0 || s.RenewalErrors > 0 || s.Held != p.idleHolds {
		return nil, errors.Join(fmt.Errorf("of %d holds %d are left: %+v", p.idleHolds, s.Held, s), l.Close(context.Background()))
	}
	switches, renewed := float64(after.Switches-before.Switches), float64(s.Renewals-renewals)
	return measure.Figures{
		"switches": switches, "renewals": renewed,
		"(switches-60)/renewal": (switches - 60) / renewed,
		"cpu us/renewal":        float64((after.CPU - before.CPU).Microseconds()) / renewed,
	}, l.Close(context.Background())
}
