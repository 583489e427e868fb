package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
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
	Questions  map[string]int // calls of Ask by their errors, holders that were told, callers of newest
	Paths      map[string]int // grants of paths, and calls for them that were refused at once
	Waits      Waits          // of the large requests with a weight
	Faults     map[string]int
	Violations map[string]int
	Of         []Violation
	Harm       string
	Late       time.Duration // the longest delay of a loss signal
	Recovery   time.Duration // the longest time from the end of a fault to the next grant
	// Backs has for each kind of fault the longest time after which a worker got a lock again.
	Backs   map[string]time.Duration
	Verdict Verdict // porcupine's
	History string  // the directory in which the history was kept, or ""
}

// Verdict says what porcupine found. The histories were cut into pieces, and OK, Illegal and Unknown
// say how many pieces had each of these results. A piece with the result Unknown has not passed the
// check.
type Verdict struct {
	OK, Illegal, Unknown int
	Operations           int
	Names                []string // names with an illegal piece
}

func (v Verdict) String() string {
	return fmt.Sprintf("%d of %d pieces ok, %d illegal, %d unknown (%d operations)", v.OK, v.OK+v.Illegal+v.Unknown, v.Illegal, v.Unknown, v.Operations)
}

// NewReport makes the report of r from its outcome.
func NewReport(r *Run, o *Outcome) *Report {
	p := &Report{
		Name: r.Name, Seed: r.Seed, For: time.Duration(o.To - o.From),
		Refused: map[string]int{}, Questions: map[string]int{}, Paths: map[string]int{}, Faults: map[string]int{}, Violations: map[string]int{},
	}
	c := check(o)
	p.Of, p.Late = c.found, c.late
	for _, v := range p.Of {
		p.Violations[v.Invariant]++
	}
	p.count(o.Events)
	if c.queued > 0 {
		p.Paths["refused behind waiters for a folder"] = c.queued
	}
	p.Waits = waitsOf(o.Events)
	p.PerSecond = float64(p.Grants) / p.For.Seconds()
	p.Recovery = recovery(o.Events)
	p.Backs = backs(o.Events, stallsOf(o.Events), nil)
	p.Harm = fmt.Sprintf("%d writes; without a fence %d lost; with it %d lost, %d late ones rejected", o.Writes, o.LostPlain, o.LostFenced, o.FencedRejected)
	return p
}

func (p *Report) count(events []Event) {
	var took []int64
	for _, e := range events {
		if isPath(e.Name) && (e.Op == Acquired || e.Op == Refused && e.Tried && e.Err == "held") {
			p.Paths[string(e.Op)]++
		}
		switch e.Op {
		case Acquired:
			p.Grants++
			took = append(took, e.At-e.Call)
		case Adopted:
			p.Grants++
		case Refused:
			p.Refused[e.Err]++
		case Faulted:
			p.Faults[e.Err]++
		case Questioned, Told, Arrived:
			p.Questions[strings.TrimSpace(string(e.Op)+" "+e.Err)]++
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
func (p *Report) Sum() int { return sum(p.Violations) }

// FaultSum returns the number of all faults.
func (p *Report) FaultSum() int { return sum(p.Faults) }

// Ambiguous returns the number of acquires whose outcome is unknown.
func (p *Report) Ambiguous() int { return p.Refused[class(padlock.ErrUncertain)] }

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// Kept reports whether no violation was found. A history that could not be judged counts as a
// violation.
func (p *Report) Kept() bool { return p.Sum() == 0 && p.Verdict.Illegal+p.Verdict.Unknown == 0 }

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
	p.WriteHead(w)
	fmt.Fprintf(w, "refused: %s; worst loss signal %v late\n", Counts(p.Refused), p.Late.Round(time.Millisecond))
	fmt.Fprintf(w, "porcupine: %v\nviolations: %s\n", p.Verdict, p.Measured())
	p.WriteViolations(w)
}

// WriteHead prints what was done.
func (p *Report) WriteHead(w io.Writer) {
	fmt.Fprintf(w, "%s, %v, seed %d\n", p.Name, p.For.Round(time.Second), p.Seed)
	fmt.Fprintf(w, "%d grants (%.0f/s), acquire p50 %v, p99 %v, %d of unknown outcome\n", p.Grants, p.PerSecond, p.P50.Round(10*time.Microsecond), p.P99.Round(10*time.Microsecond), p.Ambiguous())
	fmt.Fprintf(w, "%d faults: %s; worst recovery %v\n", p.FaultSum(), Counts(p.Faults), p.Recovery.Round(time.Millisecond))
	fmt.Fprintf(w, "each worker had a lock again after: %s\n", p.eachBack())
	fmt.Fprintf(w, "registers: %s\n", p.Harm)
	if len(p.Questions) > 0 {
		fmt.Fprintf(w, "questions and callers of newest: %s\n", Counts(p.Questions))
	}
	if len(p.Paths) > 0 {
		fmt.Fprintf(w, "paths, and calls for them that were refused at once: %s\n", Counts(p.Paths))
	}
	if p.Waits.Large > 0 {
		fmt.Fprintf(w, "weights: %v\n", p.Waits)
	}
}

// eachBack writes Backs as "cut 20ms, reset 5ms".
func (p *Report) eachBack() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(p.Backs)) {
		parts = append(parts, fmt.Sprint(kind, " ", p.Backs[kind].Round(time.Millisecond)))
	}
	return strings.Join(parts, ", ")
}

// Back returns the longest time after which a worker got a lock again.
func (p *Report) Back() time.Duration {
	return slices.Max(append(slices.Collect(maps.Values(p.Backs)), 0))
}

// maxShown is how many violations are printed. The history contains all of them.
const maxShown = 10

// WriteViolations prints the violations, and where the history is.
func (p *Report) WriteViolations(w io.Writer) {
	for i, v := range p.Of {
		if i == maxShown {
			fmt.Fprintf(w, "and %d more\n", len(p.Of)-i)
			break
		}
		fmt.Fprintln(w, v)
	}
	if len(p.Verdict.Names) > 0 {
		fmt.Fprintf(w, "no lock's history: %s\n", strings.Join(p.Verdict.Names, ", "))
	}
	if p.History != "" {
		fmt.Fprintf(w, "the history is in %s\n", p.History)
	}
}
