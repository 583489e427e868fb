package measure

import (
	"fmt"
	"io"
	"math"
	"time"
)

// Figures are the results of one trial, by column.
type Figures map[string]float64

// A Row is one contestant of an Experiment. Run makes one trial.
type Row struct {
	Name string
	Run  func() (Figures, error)
}

// A Column is one figure of a row and how it is printed.
type Column struct {
	Name   string
	Format string // format for fmt, for one float64
}

// A Target is a limit for a figure of a row. If Base is set, the limit is for a ratio instead: the
// row's figure divided by the figure of the row Base in the same column. Either AtMost or AtLeast
// is set.
type Target struct {
	Row, Column     string
	Base            string  `json:",omitempty"`
	AtMost, AtLeast float64 `json:",omitempty"`
}

// An Experiment is one table: rows that are measured together.
type Experiment struct {
	Name    string
	Columns []Column
	Rows    []Row

	// Base and Ratio add one more column to the table. Ratio is the name of an existing column, and
	// Base is the name of a row. The added column shows each row's figure in the column Ratio,
	// divided by the figure of the row Base in the same round. If Base and Ratio are empty, no
	// column is added.
	Base, Ratio string

	Targets []Target

	Most int // rounds at most, for experiments whose figures are means over seconds; 0 means any
}

// A Result is the result of an Experiment.
type Result struct {
	Experiment *Experiment
	Rounds     int
	Trials     map[string][]Figures // by row, one for each round; nil if the trial failed
	Errors     map[string]error     // the last error of each row that failed
}

// Run makes all trials. Each round has one trial of each row. To treat all rows alike, each round
// begins with another row: the first round with the first row, the second round with the second
// row, and so on. Run writes the errors of trials and the end of each round to progress.
func (e *Experiment) Run(rounds int, progress io.Writer) *Result {
	if e.Most > 0 {
		rounds = min(rounds, e.Most)
	}
	r := &Result{e, rounds, map[string][]Figures{}, map[string]error{}}
	for round := range rounds {
		start := time.Now()
		for i := range e.Rows {
			row := e.Rows[(i+round)%len(e.Rows)]
			figures, err := row.Run()
			if err != nil {
				r.Errors[row.Name] = err
				fmt.Fprintf(progress, "%s: %s: %v\n", e.Name, row.Name, err)
			}
			r.Trials[row.Name] = append(r.Trials[row.Name], figures)
		}
		fmt.Fprintf(progress, "%s: round %d of %d, %.1f s\n", e.Name, round+1, rounds, time.Since(start).Seconds())
	}
	return r
}

// Median takes the figure of one row in one column from each round. It returns the median of these
// figures, or NaN if there are none.
func (r *Result) Median(row, column string) float64 {
	return MedianOf(r.Trials[row], column)
}

// MedianOf returns the median of the figures of one column, or NaN if there are none.
func MedianOf(trials []Figures, column string) float64 {
	var values []float64
	for _, f := range trials {
		values = append(values, f.valueIn(column))
	}
	return Median(values)
}

// Ratio returns the median of the ratios of the rounds.
func (r *Result) Ratio(row, base, column string) float64 {
	var values []float64
	for i, f := range r.Trials[row] {
		if i < len(r.Trials[base]) {
			values = append(values, f.valueIn(column)/r.Trials[base][i].valueIn(column))
		}
	}
	return Median(values)
}

// valueIn returns a figure, or NaN if it was not measured.
func (f Figures) valueIn(column string) float64 {
	if x, ok := f[column]; ok {
		return x
	}
	return math.NaN()
}

// Value returns the figure to which t applies.
func (r *Result) Value(t Target) float64 {
	if t.Base != "" {
		return r.Ratio(t.Row, t.Base, t.Column)
	}
	return r.Median(t.Row, t.Column)
}

// Met reports whether the figure of t is within its limit. A figure that was not measured does not
// meet its target.
func (r *Result) Met(t Target) bool {
	v := r.Value(t)
	if t.AtLeast != 0 {
		return v >= t.AtLeast
	}
	return v <= t.AtMost
}
