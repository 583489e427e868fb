package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/lab/soak/linear"
)

// measured is the result of a verification.
type measured struct {
	*soak.Report
	url       string
	verdict   linear.Verdict
	unproxied []string
	kept      string
}

// promise is one row of the table.
type promise struct {
	Invariant string `json:"invariant"`
	Promised  string `json:"promised"`
	Measured  string `json:"measured"`
	Kept      bool   `json:"kept"`
}

// verified is the result in JSON.
type verified struct {
	Store       string           `json:"store"`
	Kept        bool             `json:"kept"` // the store kept every promise
	Seconds     float64          `json:"seconds"`
	Seed        uint64           `json:"seed"`
	Grants      int              `json:"grants"`
	PerSecond   float64          `json:"grants_per_second"`
	P50         float64          `json:"acquire_p50_seconds"`
	P99         float64          `json:"acquire_p99_seconds"`
	Ambiguous   int              `json:"ambiguous"`
	Faults      map[string]int   `json:"faults"`
	Unproxied   []string         `json:"without_proxy,omitempty"`
	LossSignal  float64          `json:"worst_loss_signal_seconds"`
	Recovery    float64          `json:"worst_recovery_seconds"`
	WithoutLock string           `json:"registers"`
	Promises    []promise        `json:"promises"`
	Violations  []soak.Violation `json:"violations,omitempty"`
	History     string           `json:"history,omitempty"`
}

// keptPromises reports whether no violation was found. A history that could not be judged counts as
// a violation.
func (f *measured) keptPromises() bool {
	return f.Sum() == 0 && f.verdict.Illegal+f.verdict.Unknown == 0
}

// promises returns the rows of the table.
func (f *measured) promises() (rows []promise) {
	for _, id := range soak.Invariants() {
		n := f.Violations[id]
		text := fmt.Sprintf("%d violations", n)
		switch {
		case n == 0:
			text = fmt.Sprintf("0 in %d grants (95 %%: below 1 in %d)", f.Grants, max(1, f.Grants/3))
		case n == 1:
			text = "1 violation"
		}
		if id == "I5" {
			text += fmt.Sprintf("; at worst %v late", f.Late.Round(10*time.Microsecond))
		}
		rows = append(rows, promise{id, soak.Meaning[id], text, n == 0})
	}
	v := f.verdict
	return append(rows, promise{
		"linear", "the history of every name could come from a lock that does one thing after the other (porcupine)",
		fmt.Sprintf("%d of %d pieces do, %d do not, %d took too long to tell", v.OK, v.OK+v.Illegal+v.Unknown, v.Illegal, v.Unknown),
		v.Illegal+v.Unknown == 0,
	})
}

// printTable prints the table and sets the exit status.
func (v *verification) printTable(f *measured) error {
	if !f.keptPromises() {
		v.status = exitViolated
	}
	if v.json {
		return json.NewEncoder(os.Stdout).Encode(f.json())
	}
	return f.write(os.Stdout)
}

func (f *measured) json() verified {
	return verified{
		Store: f.url, Kept: f.keptPromises(), Seconds: f.For.Seconds(), Seed: f.Seed, Grants: f.Grants, PerSecond: f.PerSecond,
		P50: f.P50.Seconds(), P99: f.P99.Seconds(), Ambiguous: f.Ambiguous, Faults: f.Faults, Unproxied: f.unproxied,
		LossSignal: f.Late.Seconds(), Recovery: f.Recovery.Seconds(), WithoutLock: f.Harm,
		Promises: f.promises(), Violations: f.Of, History: f.kept,
	}
}

// write prints the result as text.
func (f *measured) write(w io.Writer) error {
	fmt.Fprintf(w, "%s, %v, seed %d\n", f.url, f.For.Round(time.Second), f.Seed)
	fmt.Fprintf(w, "%d grants (%.0f/s), acquire p50 %v, p99 %v, %d of unknown outcome\n", f.Grants, f.PerSecond, f.P50.Round(10*time.Microsecond), f.P99.Round(10*time.Microsecond), f.Ambiguous)
	fmt.Fprintf(w, "%d faults: %s; worst recovery %v\n", f.FaultSum(), soak.Counts(f.Faults), f.Recovery.Round(time.Millisecond))
	for _, store := range f.unproxied {
		fmt.Fprintf(w, "%s was used without a proxy: no requests or replies were lost\n", store)
	}
	fmt.Fprintf(w, "registers: %s\n\n", f.Harm)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tpromised\tmeasured")
	for _, p := range f.promises() {
		mark := ""
		if !p.Kept {
			mark = "  BROKEN"
		}
		for i, line := range folded(p.Promised, 60) {
			if i > 0 {
				p.Invariant, p.Measured, mark = "", "", ""
			}
			fmt.Fprintf(t, "%s\t%s\t%s%s\n", p.Invariant, line, p.Measured, mark)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return f.writeViolations(w)
}

// maxShown is how many violations are printed. The history contains all of them.
const maxShown = 10

func (f *measured) writeViolations(w io.Writer) error {
	var b strings.Builder
	for i, v := range f.Of {
		if i == maxShown {
			fmt.Fprintf(&b, "and %d more\n", len(f.Of)-i)
			break
		}
		fmt.Fprintln(&b, v)
	}
	if len(f.verdict.Names) > 0 {
		fmt.Fprintf(&b, "no lock's history: %s\n", strings.Join(f.verdict.Names, ", "))
	}
	if f.kept != "" {
		fmt.Fprintf(&b, "the history is in %s\n", f.kept)
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s", b.String())
	return err
}

// folded breaks a text into lines of roughly the given width.
func folded(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+len(word) >= width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
