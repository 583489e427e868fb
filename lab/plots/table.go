package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table returns the figures of a chart, with its further columns, as a Markdown table.
func (c chart) table(all run) string {
	columns := slices.Concat(c.series, c.further)
	columns = slices.DeleteFunc(columns, func(s source) bool {
		return !slices.ContainsFunc(c.rows, func(row string) bool { _, ok := all.median(s.experiment, row, s.column); return ok })
	})
	if len(columns) == 0 {
		return ""
	}
	var b strings.Builder
	head, line := "| |", "|---|"
	for _, s := range columns {
		label := s.label
		if label == "" {
			label = s.column
		}
		head, line = head+" "+label+" |", line+"---|"
	}
	fmt.Fprintf(&b, "%s target |\n%s---|\n", head, line)
	for _, row := range c.rows {
		cells, found := "", false
		for _, s := range columns {
			x, ok := all.median(s.experiment, row, s.column)
			cells += " " + figure(x, ok) + " |"
			found = found || ok
		}
		if found {
			fmt.Fprintf(&b, "| %s |%s %s |\n", strings.ReplaceAll(row, " | ", ", compared with: "), cells, verdicts(all, columns, row))
		}
	}
	return b.String()
}

// verdicts says which targets a row has met.
func verdicts(all run, columns []source, row string) string {
	var texts, seen []string
	for _, s := range columns {
		if slices.Contains(seen, s.experiment) {
			continue
		}
		seen = append(seen, s.experiment)
		for _, t := range all[s.experiment].Targets {
			if t.Row != row || t.Value == nil {
				continue
			}
			sign, bound := "≤", t.AtMost
			if t.AtLeast > 0 {
				sign, bound = "≥", t.AtLeast
			}
			text := figure(*t.Value, true) + " " + sign + " " + figure(bound, true)
			if t.Base != "" {
				text = figure(*t.Value, true) + " × " + t.Base + " " + sign + " " + figure(bound, true)
			} else {
				text = t.Column + " " + text
			}
			texts = append(texts, text+map[bool]string{true: " met", false: " **missed**"}[t.Met])
		}
	}
	return strings.Join(texts, "; ")
}

// figure writes a number with two or three significant digits. All digits before the decimal point
// are written, even if there are more than three.
func figure(x float64, ok bool) string {
	if !ok {
		return "–"
	}
	digits := 0
	switch size := math.Abs(x); {
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
