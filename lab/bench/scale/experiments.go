//go:build linux

package main

import (
	"sync"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// experiments returns the tables. The first three tables show figures of the same trials, so each
// of their rows is measured only once.
func (b *bench) experiments() []*measure.Experiment {
	trials := map[string]func() (measure.Figures, error){}
	for _, e := range engines {
		trials[e.name] = sync.OnceValues(func() (measure.Figures, error) { return b.holdMany(e) })
	}
	rows := func() (all []measure.Row) {
		for _, e := range engines {
			all = append(all, measure.Row{Name: e.name, Run: trials[e.name]})
		}
		return all
	}
	memory := &measure.Experiment{Name: "bytes of a hold, and of a name that was given back", Rows: rows(), Columns: []string{
		"holds", held + ": client heap", held + ": client RSS", held + ": server data", held + ": server RSS",
		free + ": client heap", free + ": server data", free + ": server RSS",
	}}
	renewals := &measure.Experiment{Name: "taking, renewing and giving back", Rows: rows(), Columns: []string{
		"holds", "TTL s", "take s", "give back s", "takes/s", "renewals/s", "requests/s", "client us", "server us",
		"client carries", "server carries", "lost",
	}}
	restart := &measure.Experiment{Name: "a restart of the server", Rows: rows(), Columns: []string{
		"away s", "settled after s", "kept", "lost by it", "requests/s before", "requests/s busiest",
	}}
	for _, e := range engines {
		renewals.Targets = append(renewals.Targets, measure.Target{Row: e.name, Column: "lost", AtMost: 0})
		if e.keeps {
			restart.Targets = append(restart.Targets, measure.Target{Row: e.name, Column: "lost by it", AtMost: 0})
		}
	}
	renewals.Targets = append(renewals.Targets, measure.Target{Row: redisRow, Column: "client us", AtMost: 3})
	return []*measure.Experiment{memory, renewals, restart, b.waiting(), b.handOvers(), b.freeNames()}
}
