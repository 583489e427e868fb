package house

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const measuredPage, measuredRows, measuredRuns = "docs/measured.md", "docs/internals/measured.md", "lab/chaos/runs/runs.csv"

// The columns of the file of runs that the page is compared with.
const (
	runLane = iota
	runStore
	runGrants     = 6
	runFaults     = 10
	runViolations = 12
	runPorcupine  = 13
)

// TestMeasuredPage compares the rows of docs/internals/measured.md, one for each store, with the
// latest run of that store in the file of runs, and the sum in docs/measured.md with all of these runs.
func TestMeasuredPage(t *testing.T) {
	readHouse(t) // outside of the project's tree, this skips the test
	report(t, checkMeasured(readText(t, measuredPage), readText(t, measuredRows), covered(t, readText(t, measuredRuns))))
}

// covered returns the runs with the faults that the stores' guarantees cover.
func covered(t *testing.T, text string) (runs [][]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", measuredRuns, err)
	}
	for _, r := range all {
		if r[runLane] == "covered" {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		t.Fatalf("%s has no run with covered faults", measuredRuns)
	}
	return runs
}

// checkMeasured reports each store whose row does not show its latest run, and a wrong sum.
func checkMeasured(page, rows string, runs [][]string) []string {
	latest := map[string]string{}
	for _, r := range runs {
		faults, _, _ := strings.Cut(r[runFaults], ":")
		violations := r[runViolations]
		if strings.HasPrefix(violations, "0 in ") {
			violations = "none"
		}
		latest[r[runStore]] = strings.ReplaceAll(r[runGrants]+" grants, "+faults+" faults, violations: "+violations, ",", "")
	}
	var found []string
	for _, c := range cells(rows) {
		if want, ok := latest[c[0]]; ok && len(c) == 5 {
			got := strings.ReplaceAll(c[2]+" grants, "+c[3]+" faults, violations: "+c[4], ",", "")
			if got != want {
				found = append(found, fmt.Sprintf("%s: %s has %s, its latest run in %s has %s", measuredRows, c[0], got, measuredRuns, want))
			}
			delete(latest, c[0])
		}
	}
	for _, store := range slices.Sorted(maps.Keys(latest)) {
		found = append(found, fmt.Sprintf("%s: %s has no row", measuredRows, store))
	}
	if want := sumOfRuns(runs); !strings.Contains(strings.Join(strings.Fields(page), " "), want) {
		found = append(found, fmt.Sprintf("%s does not say %q", measuredPage, want))
	}
	return found
}

// sumOfRuns returns the totals of all runs, and of those without a violation.
func sumOfRuns(runs [][]string) string {
	var all, clean struct{ runs, grants, faults int }
	for _, r := range runs {
		grants, _ := strconv.Atoi(r[runGrants])
		number, _, _ := strings.Cut(r[runFaults], ":")
		faults, _ := strconv.Atoi(number)
		all.runs, all.grants, all.faults = all.runs+1, all.grants+grants, all.faults+faults
		if strings.HasPrefix(r[runViolations], "0 in ") && strings.HasSuffix(r[runPorcupine], " 0 illegal, 0 unknown") {
			clean.runs, clean.grants, clean.faults = clean.runs+1, clean.grants+grants, clean.faults+faults
		}
	}
	return fmt.Sprintf("together: %d runs with %s grants and %s faults; in the %d without a violation %s grants and %s faults.",
		all.runs, thousands(all.grants), thousands(all.faults), clean.runs, thousands(clean.grants), thousands(clean.faults))
}

// thousands writes a number in groups of three digits.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// cells returns the cells of all lines of all tables in a page.
func cells(page string) [][]string {
	var all [][]string
	for line := range strings.Lines(page) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "| ") {
			continue
		}
		row := strings.Split(strings.Trim(line, "|"), " | ")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		all = append(all, row)
	}
	return all
}

func TestMeasuredPageBites(t *testing.T) {
	runs := covered(t, `covered,file,all,d,11,3m,9,1,1,1,1: cut 1,0,I1 1: 0.1,"9 ok, 1 illegal, 0 unknown"`+"\n"+
		`all,file,all,d,13,3m,7,1,1,1,7: cut 7,0,I1 1: 0.1,"9 ok, 0 illegal, 0 unknown"`+"\n"+
		`covered,file,all,d,12,3m,1234,1,1,1,5012: cut 5012,0,0 in 1234 grants,"9 ok, 0 illegal, 0 unknown"`+"\n")
	const sum = "together: 2 runs with 1,243 grants and 5,013 faults;\nin the 1 without a violation 1,234 grants and 5,012 faults.\n"
	expect(t, checkMeasured(sum, "| file | all | 1,234 | 5,012 | none |\n", runs), "")
	expect(t, checkMeasured(sum, "| file | all | 1,234 | 6 | none |\n", runs), "its latest run in "+measuredRuns+" has 1234 grants 5012 faults")
	expect(t, checkMeasured(sum, "", runs), "file has no row")
	expect(t, checkMeasured("", "| file | all | 1,234 | 5,012 | none |\n", runs), "does not say")
	runs[1][runPorcupine] = "9 ok, 1 illegal, 0 unknown"
	expect(t, checkMeasured(sum, "| file | all | 1,234 | 5,012 | none |\n", runs), "in the 0 without a violation 0 grants and 0 faults")
}
