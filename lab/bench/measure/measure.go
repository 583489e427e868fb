package measure

import (
	"fmt"
	"io"
	"time"
)

// Figures are the results of one trial, by column.
type Figures map[string]float64

// A Row is one contestant of an Experiment. Run makes one trial.
type Row struct {
	Name string
	Run  func() (Figures, error)
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
	Columns []string
	Rows    []Row

	// Base and Ratio add one more column to the table. Ratio is the name of an existing column, and
	// Base is the name of a row. The added column shows each row's figure in the column Ratio,
	// divided by the figure of the row Base in the same round. If Base and Ratio are empty, no
	// column is added.
	Base, Ratio string

	Targets []Target

	Most int // rounds at most, for experiments whose figures are means over seconds; 0 means any
}

// Run makes all trials. Each round has one trial of each row. To treat all rows alike, each round
// begins with another row: the first round with the first row, the second round with the second
// row, and so on. Run writes the errors of trials and the end of each round to progress.
func (e *Experiment) Run(rounds int, progress io.Writer) *Record {
	if e.Most > 0 {
		rounds = min(rounds, e.Most)
	}
	r := &Record{Name: e.Name, Rounds: rounds, Columns: e.Columns, Trials: map[string][]Figures{}, Errors: map[string]string{}}
	for _, row := range e.Rows {
		r.Rows = append(r.Rows, row.Name)
	}
	for round := range rounds {
		start := time.Now()
		for i := range e.Rows {
			row := e.Rows[(i+round)%len(e.Rows)]
			figures, err := row.Run()
			if err != nil {
				r.Errors[row.Name] = err.Error()
				fmt.Fprintf(progress, "%s: %s: %v\n", e.Name, row.Name, err)
			}
			r.Trials[row.Name] = append(r.Trials[row.Name], figures.numbers())
		}
		fmt.Fprintf(progress, "%s: round %d of %d, %.1f s\n", e.Name, round+1, rounds, time.Since(start).Seconds())
	}
	if e.Base != "" {
		r.addRatios(e.Base, e.Ratio)
	}
	for _, t := range e.Targets {
		r.Targets = append(r.Targets, r.verdict(t))
	}
	return r
}
