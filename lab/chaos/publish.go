package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/internal/soak/linear"
	"github.com/padlock-go/padlock/lab/chaos/rig"
)

// publish adds a line to the page that -append names. The page has two tables: one for the covered
// faults and one for all faults. A mark in the page shows where each table ends.
func (s *settings) publish(row rig.Row, all bool, p *soak.Report, v linear.Verdict) error {
	if s.append == "" {
		return nil
	}
	text, err := os.ReadFile(s.append)
	if err != nil {
		return err
	}
	mark := marks[all]
	before, after, found := strings.Cut(string(text), mark)
	if !found {
		return fmt.Errorf("%s has no %q", s.append, mark)
	}
	page := before + line(row, all, p, v) + mark + after
	return os.WriteFile(s.append, []byte(summed(page)), 0o644)
}

// The page also has a summary of the table of covered faults, between the marks sumBegins and
// sumEnds. The mark tableBegins stands before the first line of that table.
const sumBegins, sumEnds, tableBegins = "<!-- sum -->", "<!-- end of sum -->", "<!-- covered -->"

// summed returns the page with a new summary. If the page does not have all marks, summed returns
// it unchanged.
func summed(page string) string {
	head, rest, found1 := strings.Cut(page, sumBegins)
	_, tail, found2 := strings.Cut(rest, sumEnds)
	_, table, found3 := strings.Cut(tail, tableBegins)
	table, _, found4 := strings.Cut(table, marks[false])
	if !found1 || !found2 || !found3 || !found4 {
		return page
	}
	return head + sumBegins + "\n" + sumOf(table) + "\n" + sumEnds + tail
}

// sumOf returns the summary of a table: the totals of all runs, and of the runs without a
// violation.
func sumOf(table string) string {
	var all, clean struct{ runs, grants, faults int }
	for _, text := range strings.Split(table, "\n") {
		cells := strings.Split(text, " | ")
		if len(cells) < 12 {
			continue
		}
		grants, err1 := strconv.Atoi(cells[5])
		number, _, _ := strings.Cut(cells[9], ":")
		faults, err2 := strconv.Atoi(number)
		if err1 != nil || err2 != nil {
			continue // the head of the table
		}
		all.runs, all.grants, all.faults = all.runs+1, all.grants+grants, all.faults+faults
		if strings.HasPrefix(cells[11], "0 in ") && strings.Contains(cells[12], " 0 illegal, 0 unknown") {
			clean.runs, clean.grants, clean.faults = clean.runs+1, clean.grants+grants, clean.faults+faults
		}
	}
	return fmt.Sprintf("Together: %d runs with %s grants and %s faults;\nin the %d without a violation %s grants and %s faults.",
		all.runs, thousands(all.grants), thousands(all.faults), clean.runs, thousands(clean.grants), thousands(clean.faults))
}

// thousands writes a number in groups of three digits.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// marks stand at the end of the two tables. The key is false for the table of covered faults, and
// true for the table of all faults.
var marks = map[bool]string{false: "<!-- end of covered -->", true: "<!-- end of all -->"}

// done reports whether the table already has a line for this run.
func (s *settings) done(row rig.Row, all bool) bool {
	if !s.resume || s.append == "" {
		return false
	}
	text, err := os.ReadFile(s.append)
	if err != nil {
		return false // publish reports the error
	}
	table, rest, _ := strings.Cut(string(text), marks[false])
	if all {
		table = rest
	}
	for _, line := range strings.Split(table, "\n") {
		if strings.HasPrefix(line, "| "+row.Name+" |") && strings.Contains(line, fmt.Sprintf(" | %d | ", s.Seed)) {
			return true
		}
	}
	return false
}

// line returns a row of the table in Markdown.
func line(row rig.Row, all bool, p *soak.Report, v linear.Verdict) string {
	promise := row.Promise
	if all {
		promise = "under all faults: a checked fence helps"
	}
	cells := []string{
		p.Name, promise, time.Now().Format(time.DateOnly), fmt.Sprint(p.Seed), p.For.Round(time.Second).String(),
		fmt.Sprint(p.Grants), fmt.Sprintf("%.0f", p.PerSecond), short(p.P50), short(p.P99),
		fmt.Sprintf("%d: %s", p.FaultSum(), kinds(p.Faults)), fmt.Sprint(p.Ambiguous), p.Measured(),
		fmt.Sprintf("%d ok, %d illegal, %d unknown", v.OK, v.Illegal, v.Unknown),
		p.Harm, short(p.Late), short(p.Recovery),
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f ms", float64(d)/1e6)
}

func kinds(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
