package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/padlock-go/padlock/lab/soak"
)

// promise is one row of the table.
type promise struct {
	invariant, promised, measured string
	kept                          bool
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

// printTable prints the result and sets the exit status.
func (v *verification) printTable(report *soak.Report) error {
	w := os.Stdout
	report.WriteHead(w)
	for _, store := range v.wires.unproxied {
		fmt.Fprintf(w, "%s was used without a proxy: no requests or replies were lost\n", store)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\n\tpromised\tmeasured")
	for _, p := range promises(report) {
		mark := ""
		if !p.kept {
			mark = "  BROKEN"
		}
		for i, line := range folded(p.promised, 60) {
			if i > 0 {
				p.invariant, p.measured, mark = "", "", ""
			}
			fmt.Fprintf(t, "%s\t%s\t%s%s\n", p.invariant, line, p.measured, mark)
		}
	}
	if !report.Kept() {
		v.status = exitViolated
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
