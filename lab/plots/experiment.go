package main

import (
	"math"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// A run is the output of `-json`: the experiments by name.
type run map[string]measure.Record

// median returns the median of the values that the rounds have in one column of a row. It returns
// false if no round has a value there.
func (all run) median(experiment, row, column string) (float64, bool) {
	x := measure.MedianOf(all[experiment].Trials[row], column)
	return x, !math.IsNaN(x)
}
