//go:build linux

package main

import (
	"slices"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// These are the targets that redisstore was built for. A row measures either the store alone or the
// store together with package padlock. Most targets are for both kinds of rows, and some are for
// one kind only.

func uncontendedTargets(n int) []measure.Target {
	if n != 64 {
		return nil
	}
	share := func(row string, atLeast float64) measure.Target {
		return measure.Target{Row: row, Column: "ops/s", Base: limitAlone, AtLeast: atLeast}
	}
	return []measure.Target{
		share(oursStringNoFence+byDriver, 0.9), share(oursStringNoFence, 0.75),
		share(oursString+byDriver, 0.7), share(oursString, 0.7),
		share(ours+byDriver, 0.6), share(ours, 0.6),
	}
}

func drainTargets(n int, ownClients bool) (all []measure.Target) {
	for _, row := range []string{ours, oursString} {
		if ownClients && slices.Contains([]int{64, 256}, n) {
			all = append(all, measure.Target{Row: row, Column: "total_ms", Base: limitQueue, AtMost: 2.2})
		}
		if ownClients {
			all = append(all, measure.Target{Row: row, Column: "cmds", AtMost: 1.3})
		} else {
			all = append(all,
				measure.Target{Row: row, Column: "total_ms", Base: limitHop, AtMost: 2},
				measure.Target{Row: row + locally, Column: "total_ms", Base: limitHop, AtMost: 0.2})
		}
	}
	return all
}

func procsTargets(n int) (all []measure.Target) {
	if n != 16 {
		return nil
	}
	for _, row := range []string{ours, oursString} {
		all = append(all,
			measure.Target{Row: row, Column: "hand-offs/s", Base: limitQueue, AtLeast: 0.5},
			measure.Target{Row: row, Column: "Jain", AtLeast: 0.99})
	}
	return all
}

// blockedTargets limit all commands that clients send.
var blockedTargets = []measure.Target{
	{Row: ours, Column: "cmds/s", AtMost: 10}, {Row: oursString, Column: "cmds/s", AtMost: 10},
}
