package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// merge writes the medians of a run into the published file, in place of the experiment's old
// medians. If keepRows is true, rows that are missing in the run stay in the file. Only
// experiments, rows and columns that a chart or its table shows are published.
func merge(published, from string, keepRows bool) error {
	old, err := readFile(published)
	if err != nil {
		return err
	}
	added, err := readFile(from)
	if err != nil {
		return err
	}
	merged := false
	for name, e := range added {
		if e = publishedPart(e); len(e.Trials) == 0 {
			continue
		}
		merged = true
		if keepRows {
			addMissing(&e, old[name])
		}
		old[name] = e
	}
	if !merged {
		return fmt.Errorf("%s has no figures that a chart shows: is it the output of a benchmark with -json?", from)
	}
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, made := pairings[name]; made {
			continue // it is made from the other experiments
		}
		if err := lines.Encode(old[name]); err != nil {
			return err
		}
	}
	return os.WriteFile(published, out.Bytes(), 0o644)
}

// addMissing copies rows of a published experiment to e, with their targets. It copies only the
// rows that e does not have.
func addMissing(e *measure.Record, published measure.Record) {
	for _, t := range published.Targets {
		if e.Trials[t.Row] == nil {
			e.Targets = append(e.Targets, t)
		}
	}
	for row, trials := range published.Trials {
		if e.Trials[row] == nil {
			e.Trials[row] = trials
		}
	}
}

func readFile(name string) (run, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRun(f)
}

// publishedPart returns the medians of the figures that charts and tables show.
func publishedPart(e measure.Record) measure.Record {
	out := measure.Record{Name: e.Name, Rounds: e.Rounds, Trials: map[string][]measure.Figures{}}
	add := func(row, column string) {
		x := measure.MedianOf(e.Trials[row], column)
		if math.IsNaN(x) {
			return
		}
		if out.Trials[row] == nil {
			out.Trials[row] = []measure.Figures{{}}
		}
		out.Trials[row][0][column] = threeDigits(x)
	}
	for _, c := range charts {
		for _, s := range slices.Concat(c.series, c.further) {
			for _, row := range c.rows {
				if s.experiment == e.Name {
					add(row, s.column)
				}
			}
		}
	}
	for _, pairs := range pairings {
		for _, p := range pairs {
			if p.experiment == e.Name {
				add(p.ours, p.column)
				add(p.other, p.column)
			}
		}
	}
	for _, t := range e.Targets {
		if _, ok := out.Trials[t.Row]; ok && t.Value != nil {
			x := threeDigits(*t.Value)
			t.Value = &x
			out.Targets = append(out.Targets, t)
		}
	}
	return out
}

// threeDigits rounds x to three significant digits, or to a whole number if it is large.
func threeDigits(x float64) float64 {
	if x >= 1000 || x <= -1000 {
		x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'f', 0, 64), 64)
		return x
	}
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return x
}
