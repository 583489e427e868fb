//go:build linux

package main

import (
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/observe/metrics"
)

// observed measures how much slower locks in memory are when an observer watches them.
func observed(p *plan) *measure.Experiment {
	const plain, figures = "nobody watches", "package metrics"
	row := func(name string, opts ...padlock.LockerOption) measure.Row {
		return measure.Row{Name: name, Run: func() (measure.Figures, error) { return faceTrial(p.trial, opts...) }}
	}
	return &measure.Experiment{
		Name:    "memory, observed",
		Columns: perOp,
		Rows: []measure.Row{
			row(plain),
			row(figures, padlock.Observe(metrics.New())),
		},
		Base: plain, Ratio: "ns/op",
		Targets: []measure.Target{{Row: figures, Column: "ns/op", Base: plain, AtMost: 2}},
	}
}
