package measure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Record is an experiment with the figures of every round, as the benches write it with -json and
// as others read it.
type Record struct {
	Name          string
	Rounds        int
	Columns, Rows []string
	Trials        map[string][]Figures // by row, one for each round
	Errors        map[string]string    `json:",omitempty"` // the last error of each row that failed
	Targets       []Verdict            `json:",omitempty"`
}

// A Verdict is a target with the figure that was measured, or nil if there is none. A figure that
// was not measured does not meet its target.
type Verdict struct {
	Target
	Value *float64 `json:",omitempty"`
	Met   bool
}

// Median takes the figure of one row in one column from each round. It returns the median of these
// figures, or NaN if there are none.
func (r *Record) Median(row, column string) float64 {
	var values []float64
	for _, f := range r.Trials[row] {
		values = append(values, f.valueIn(column))
	}
	return Median(values)
}

// Ratio returns the median of the ratios of the rounds.
func (r *Record) Ratio(row, base, column string) float64 {
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

// numbers returns the figures that are numbers.
func (f Figures) numbers() Figures {
	out := Figures{}
	for column, x := range f {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			out[column] = x
		}
	}
	return out
}

// addRatios adds a column: the figures of another column, divided by the figure of the row base in
// the same round.
func (r *Record) addRatios(base, column string) {
	name := "× " + base
	r.Columns = append(slices.Clone(r.Columns), name)
	for _, trials := range r.Trials {
		for round, f := range trials[:min(len(trials), len(r.Trials[base]))] {
			if x := f.valueIn(column) / r.Trials[base][round].valueIn(column); !math.IsNaN(x) && !math.IsInf(x, 0) {
				f[name] = x
			}
		}
	}
}

func (r *Record) verdict(t Target) Verdict {
	v := r.Median(t.Row, t.Column)
	if t.Base != "" {
		v = r.Ratio(t.Row, t.Base, t.Column)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Verdict{Target: t}
	}
	return Verdict{t, &v, t.AtLeast != 0 && v >= t.AtLeast || t.AtLeast == 0 && v <= t.AtMost}
}

func (v Verdict) String() string {
	sign, limit := "≤", v.AtMost
	if v.AtLeast != 0 {
		sign, limit = "≥", v.AtLeast
	}
	value := math.NaN()
	if v.Value != nil {
		value = *v.Value
	}
	what := fmt.Sprintf("%s %s %s %s", v.Column, Figure(value), sign, Figure(limit))
	if v.Base != "" {
		what = fmt.Sprintf("%s × %s %s %s", Figure(value), v.Base, sign, Figure(limit))
	}
	if v.Met {
		return what + " met"
	}
	return what + " **missed**"
}

// Print writes the table of r: in Markdown, and with aligned columns if a terminal shows it.
func (r *Record) Print(w io.Writer, aligned bool) {
	lines := [][]string{slices.Concat([]string{""}, r.Columns, []string{"target"})}
	for _, row := range r.Rows {
		cells := []string{row}
		for _, c := range r.Columns {
			cells = append(cells, Figure(r.Median(row, c)))
		}
		lines = append(lines, append(cells, r.remark(row)))
	}
	fmt.Fprintf(w, "\n**%s**, rounds: %d\n\n", r.Name, r.Rounds)
	printLines(w, lines, aligned)
}

// remark returns the last cell of a row: its targets, and the first line of its error. The progress
// has shown the whole text.
func (r *Record) remark(row string) string {
	var parts []string
	for _, v := range r.Targets {
		if v.Row == row {
			parts = append(parts, v.String())
		}
	}
	if err, failed := r.Errors[row]; failed {
		first, _, _ := strings.Cut(err, "\n")
		parts = append(parts, "FAILED: "+first)
	}
	return strings.Join(parts, "; ")
}

// printLines writes a table whose first line is the head.
func printLines(w io.Writer, lines [][]string, aligned bool) {
	width := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, c := range cells {
			if aligned {
				width[i] = max(width[i], utf8.RuneCountInString(c))
			}
		}
	}
	for n, cells := range lines {
		for i, c := range cells {
			fmt.Fprintf(w, "| %-*s ", width[i], c)
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			fmt.Fprintln(w, "|"+strings.Repeat("---|", len(cells)))
		}
	}
}

// Figure writes a number with two or three significant digits. All digits before the decimal point
// are written, even if there are more than three.
func Figure(x float64) string {
	digits := 0
	switch size := math.Abs(x); {
	case math.IsNaN(x):
		return "–"
	case x == math.Trunc(x) || size >= 100:
	case size >= 10:
		digits = 1
	case size >= 0.1:
		digits = 2
	default:
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	text := strconv.FormatFloat(x, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}

// Medians returns a record with one round: the medians, with three significant digits.
func (r *Record) Medians() *Record {
	out := &Record{Name: r.Name, Rounds: r.Rounds, Columns: r.Columns, Rows: r.Rows, Trials: map[string][]Figures{}}
	for _, row := range r.Rows {
		f := Figures{}
		for _, c := range r.Columns {
			f[c] = threeDigits(r.Median(row, c))
		}
		out.Trials[row] = []Figures{f.numbers()}
	}
	for _, v := range r.Targets {
		if v.Value != nil {
			x := threeDigits(*v.Value)
			v.Value = &x
			out.Targets = append(out.Targets, v)
		}
	}
	return out
}

// threeDigits rounds x to three significant digits, or to a whole number if it is large.
func threeDigits(x float64) float64 {
	if math.Abs(x) >= 1000 {
		return math.Round(x)
	}
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64) // it has written the text itself
	return x
}
