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
)

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

// promises returns the rows of the table.
func promises(p *soak.Report) (rows []promise) {
	for _, i := range soak.Invariants {
		n := p.Violations[i.ID]
		text := fmt.Sprintf("%d violations", n)
		switch {
		case n == 0:
			text = fmt.Sprintf("0 in %d grants (95 %%: below 1 in %d)", p.Grants, max(1, p.Grants/3))
		case n == 1:
			text = "1 violation"
		}
		if i.ID == "I5" {
			text += fmt.Sprintf("; at worst %v late", p.Late.Round(10*time.Microsecond))
		}
		rows = append(rows, promise{i.ID, i.Meaning, text, n == 0})
	}
	v := p.Verdict
	return append(rows, promise{
		"linear", "the history of every name could come from a lock that does one thing after the other (porcupine)",
		fmt.Sprintf("%d of %d pieces do, %d do not, %d took too long to tell", v.OK, v.OK+v.Illegal+v.Unknown, v.Illegal, v.Unknown),
		v.Illegal+v.Unknown == 0,
	})
}

// printTable prints the table and sets the exit status.
func (v *verification) printTable(p *soak.Report) error {
	if !p.Kept() {
		v.status = exitViolated
	}
	if !v.json {
		return v.write(os.Stdout, p)
	}
	return json.NewEncoder(os.Stdout).Encode(verified{
		Store: p.Name, Kept: p.Kept(), Seconds: p.For.Seconds(), Seed: p.Seed, Grants: p.Grants, PerSecond: p.PerSecond,
		P50: p.P50.Seconds(), P99: p.P99.Seconds(), Ambiguous: p.Ambiguous(), Faults: p.Faults, Unproxied: v.wires.unproxied,
		LossSignal: p.Late.Seconds(), Recovery: p.Recovery.Seconds(), WithoutLock: p.Harm,
		Promises: promises(p), Violations: p.Of, History: p.History,
	})
}

// write prints the result as text.
func (v *verification) write(w io.Writer, report *soak.Report) error {
	report.WriteHead(w)
	for _, store := range v.wires.unproxied {
		fmt.Fprintf(w, "%s was used without a proxy: no requests or replies were lost\n", store)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\n\tpromised\tmeasured")
	for _, p := range promises(report) {
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
	if !report.Kept() {
		fmt.Fprintln(t)
		report.WriteViolations(t)
	}
	return t.Flush()
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
