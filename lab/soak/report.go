package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Report holds the published results of a run.
type Report struct {
	Name       string
	Seed       uint64
	For        time.Duration
	Grants     int
	PerSecond  float64
	P50, P99   time.Duration // of acquires that were granted
	Refused    map[string]int
	Ambiguous  int // acquires whose outcome is unknown
	Faults     map[string]int
	Violations map[string]int
	Of         []Violation
	Harm       string
	Late       time.Duration // the longest delay of a loss signal
	Recovery   time.Duration // the longest time from the end of a fault to the next grant
	Verdict    string        // porcupine's verdict
	Guarantees driver.Guarantees
}

// NewReport makes the report of r from its outcome.
func NewReport(r *Run, o *Outcome) *Report {
	p := &Report{
		Name: r.Name, Seed: r.Seed, For: time.Duration(o.To - o.From), Guarantees: r.Guarantees,
		Refused: map[string]int{}, Faults: map[string]int{}, Violations: map[string]int{},
	}
	p.Of, p.Late = Check(o)
	for _, v := range p.Of {
		p.Violations[v.Invariant]++
	}
	p.count(o.Events)
	p.PerSecond = float64(p.Grants) / p.For.Seconds()
	p.Recovery = recovery(o.Events)
	p.Harm = fmt.Sprintf("%d writes; without a fence %d lost; with it %d lost, %d late ones rejected", o.Writes, o.LostPlain, o.LostFenced, o.FencedRejected)
	return p
}

func (p *Report) count(events []Event) {
	var took []int64
	for _, e := range events {
		switch e.Op {
		case Acquired:
			p.Grants++
			took = append(took, e.At-e.Call)
		case Adopted:
			p.Grants++
		case Refused:
			p.Refused[e.Err]++
			if e.Err == "uncertain" {
				p.Ambiguous++
			}
		case Faulted:
			p.Faults[e.Err]++
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		p.P50, p.P99 = time.Duration(took[len(took)/2]), time.Duration(took[len(took)*99/100])
	}
}

// recovery returns the longest time from the end of a fault to the next grant.
func recovery(events []Event) time.Duration {
	var worst, since int64
	for _, e := range ordered(events) {
		switch e.Op {
		case Faulted:
			if since == 0 {
				since = e.At
			}
		case Acquired:
			if since != 0 && e.Call > since {
				worst = max(worst, e.At-since)
				since = 0
			}
		}
	}
	return time.Duration(worst)
}

// Sum returns the number of all violations.
func (p *Report) Sum() (n int) {
	for _, v := range p.Violations {
		n += v
	}
	return n
}

// FaultSum returns the number of all faults.
func (p *Report) FaultSum() (n int) {
	for _, v := range p.Faults {
		n += v
	}
	return n
}

// Measured returns the text about the violations for one cell of a table.
func (p *Report) Measured() string {
	if p.Sum() == 0 {
		return fmt.Sprintf("0 in %d grants (95 %%: below 1 in %d)", p.Grants, p.Grants/3)
	}
	parts := Counts(p.Violations)
	return fmt.Sprintf("%s: %.1f per 1,000 grants, %.2f per fault", parts, 1000*float64(p.Sum())/float64(max(1, p.Grants)), float64(p.Sum())/float64(max(1, p.FaultSum())))
}

// Counts writes a map as "cut 3, reset 1".
func Counts(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// Write prints the whole report.
func (p *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "%s (seed %d, %v)\n", p.Name, p.Seed, p.For.Round(time.Second))
	fmt.Fprintf(w, "  %d grants, %.0f/s, acquire p50 %v p99 %v\n", p.Grants, p.PerSecond, p.P50.Round(10*time.Microsecond), p.P99.Round(100*time.Microsecond))
	fmt.Fprintf(w, "  refused: %s; ambiguous %d\n", Counts(p.Refused), p.Ambiguous)
	fmt.Fprintf(w, "  %d faults: %s\n", p.FaultSum(), Counts(p.Faults))
	fmt.Fprintf(w, "  %s\n", p.Harm)
	fmt.Fprintf(w, "  worst loss signal %v late, worst recovery %v\n", p.Late.Round(time.Millisecond), p.Recovery.Round(time.Millisecond))
	fmt.Fprintf(w, "  porcupine: %s\n  violations: %s\n", p.Verdict, p.Measured())
	for _, invariant := range Invariants() {
		if p.Violations[invariant] > 0 {
			fmt.Fprintf(w, "    %s: %s\n", invariant, Meaning[invariant])
		}
	}
	for i, v := range p.Of {
		if i == 10 {
			fmt.Fprintf(w, "    and %d more\n", len(p.Of)-i)
			break
		}
		fmt.Fprintf(w, "    %v\n", v)
	}
}
