package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/integration/chaos/rig"
	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/internal/soak/linear"
)

// publish adds a line to the table of covered or of all faults, if it is wanted.
// A table ends where the mark stands.
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
	return os.WriteFile(s.append, []byte(before+line(row, all, p, v)+mark+after), 0o644)
}

// marks end the tables of covered and of all faults.
var marks = map[bool]string{false: "<!-- end of covered -->", true: "<!-- end of all -->"}

// done reports whether a run that is to be resumed has this line already.
func (s *settings) done(row rig.Row, all bool) bool {
	if !s.resume || s.append == "" {
		return false
	}
	text, err := os.ReadFile(s.append)
	if err != nil {
		return false // publish will say so
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

// line is a row of the table in Markdown.
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
