package measure

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Print writes the table of r as text that is also a Markdown table.
func (r *Result) Print(w io.Writer) {
	e := r.Experiment
	lines := [][]string{r.head()}
	for _, row := range e.Rows {
		lines = append(lines, r.line(row.Name))
	}
	fmt.Fprintf(w, "\n%s (%d rounds)\n\n", e.Name, r.Rounds)
	printLines(w, lines, 1)
}

func (r *Result) head() []string {
	head := []string{""}
	for _, c := range r.Experiment.Columns {
		head = append(head, c.Name)
	}
	if r.Experiment.Base != "" {
		head = append(head, "x "+r.Experiment.Base)
	}
	return append(head, "target")
}

func (r *Result) line(row string) []string {
	e := r.Experiment
	cells := []string{row}
	for _, c := range e.Columns {
		cells = append(cells, format(c.Format, r.Median(row, c.Name)))
	}
	if e.Base != "" {
		cells = append(cells, format("%.3g", r.Ratio(row, e.Base, e.Ratio)))
	}
	return append(cells, r.remark(row))
}

// remark returns the last cell of a row: its targets, and the error if the row failed.
func (r *Result) remark(row string) string {
	var parts []string
	for _, t := range r.Experiment.Targets {
		if t.Row == row {
			parts = append(parts, r.verdict(t))
		}
	}
	if err := r.Errors[row]; err != nil {
		// only the first line of an error, because progress has shown the whole text
		first, _, _ := strings.Cut(err.Error(), "\n")
		parts = append(parts, "FAILED: "+first)
	}
	return strings.Join(parts, "; ")
}

func (r *Result) verdict(t Target) string {
	sign, limit := "≤", t.AtMost
	if t.AtLeast != 0 {
		sign, limit = "≥", t.AtLeast
	}
	what := fmt.Sprintf("%s %.4g %s %.4g", t.Column, r.Value(t), sign, limit)
	if t.Base != "" {
		what = fmt.Sprintf("%s %.3g %s %.4g x %s", t.Column, r.Value(t), sign, limit, t.Base)
	}
	if r.Met(t) {
		return what + " met"
	}
	return what + " MISSED"
}

// PrintTargets writes one table of all targets.
func PrintTargets(w io.Writer, results []*Result) {
	lines := [][]string{{"experiment", "row", "target"}}
	missed := 0
	for _, r := range results {
		for _, t := range r.Experiment.Targets {
			lines = append(lines, []string{r.Experiment.Name, t.Row, r.verdict(t)})
			if !r.Met(t) {
				missed++
			}
		}
	}
	if len(lines) == 1 {
		return
	}
	fmt.Fprintf(w, "\n%d targets, %d missed\n\n", len(lines)-1, missed)
	printLines(w, lines, 3)
}

func format(layout string, x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "-"
	}
	return fmt.Sprintf(layout, x)
}

// printLines aligns the cells. The first line is the head. In each line, the first textCells cells
// and the last cell contain text. The other cells contain figures.
func printLines(w io.Writer, lines [][]string, textCells int) {
	width := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, c := range cells {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for n, cells := range lines {
		for i, c := range cells {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i < textCells || i == len(cells)-1 {
				fmt.Fprintf(w, "| %s%s ", c, pad)
			} else {
				fmt.Fprintf(w, "| %s%s ", pad, c)
			}
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			fmt.Fprintln(w, "|"+strings.Repeat("---|", len(cells)))
		}
	}
}

func (f Figures) numbers() Figures {
	out := Figures{}
	for column, x := range f {
		if isNumber(x) {
			out[column] = x
		}
	}
	return out
}

func isNumber(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
