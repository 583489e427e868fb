package main

import "slices"

// A run is the output of `-json`: the experiments by name.
type run map[string]experiment

// An experiment is one table of a benchmark. Each row has one trial per round. A trial is a map
// from the names of columns to figures.
type experiment struct {
	Name    string
	Rounds  int
	Trials  map[string][]map[string]float64
	Targets []target `json:",omitempty"`
}

// A target is a limit for a figure of a row. If Base is set, the limit is for a ratio instead: the
// row's figure divided by the figure of the row Base. Value is what was measured.
type target struct {
	Row, Column     string
	Base            string   `json:",omitempty"`
	AtMost, AtLeast float64  `json:",omitempty"`
	Value           *float64 `json:",omitempty"`
	Met             bool
}

// median returns the median of the values that the rounds have in one column of a row. It returns
// false if no round has a value there.
func (e experiment) median(row, column string) (float64, bool) {
	var values []float64
	for _, trial := range e.Trials[row] {
		if x, ok := trial[column]; ok {
			values = append(values, x)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, true
}
