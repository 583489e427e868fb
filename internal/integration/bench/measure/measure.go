package measure

import (
	"fmt"
	"io"
	"math"
	"time"
)

// Figures are what one trial measured, by column.
type Figures map[string]float64

// A Row is one contestant of an Experiment. Run makes one trial.
type Row struct {
	Name string
	Run  func() (Figures, error)
}

// A Column is one figure of a row and how it is printed.
type Column struct {
	Name   string
	Format string // of fmt, for one float64
}

// A Target is what a figure of a row is to reach: on its own, or as a ratio to
// the same figure of the row Base. One of AtMost and AtLeast is set.
type Target struct {
	Row, Column, Base string
	AtMost, AtLeast   float64
}

// An Experiment is one table: rows that are measured together.
type Experiment struct {
	Name    string
	Columns []Column
	Rows    []Row

	// Base and Ratio add a column: each row's figure in the column Ratio over
	// that of the row Base in the same round. Empty: none.
	Base, Ratio string

	Targets []Target
}

// A Result is an Experiment that was made.
type Result struct {
	Experiment *Experiment
	Rounds     int
	Trials     map[string][]Figures // by row, one per round; nil where it failed
	Errors     map[string]error     // the last one of each row that failed
}

// Run makes all trials: in each round every row once, and each round begins
// one row later than the one before. It says on progress what it is at.
func (e *Experiment) Run(rounds int, progress io.Writer) *Result {
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

// Median is the median of a row's figure over the rounds; NaN if it has none.
func (r *Result) Median(row, column string) float64 {
	var values []float64
	for _, f := range r.Trials[row] {
		values = append(values, f.get(column))
	}
	return Median(values)
}

// Ratio is the median of the ratios of the rounds.
func (r *Result) Ratio(row, base, column string) float64 {
	var values []float64
	for i, f := range r.Trials[row] {
		if i < len(r.Trials[base]) {
			values = append(values, f.get(column)/r.Trials[base][i].get(column))
		}
	}
	return Median(values)
}

// get is NaN for a figure that was not measured.
func (f Figures) get(column string) float64 {
	if x, ok := f[column]; ok {
		return x
	}
	return math.NaN()
}

// Value is the figure that t is about.
func (r *Result) Value(t Target) float64 {
	if t.Base != "" {
		return r.Ratio(t.Row, t.Base, t.Column)
	}
	return r.Median(t.Row, t.Column)
}

// Met tells whether the figure of t reaches it. What was not measured does not.
func (r *Result) Met(t Target) bool {
	v := r.Value(t)
	if t.AtLeast != 0 {
		return v >= t.AtLeast
	}
	return v <= t.AtMost
}
