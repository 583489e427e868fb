package house

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const measuredPage, measuredLog = "docs/measured.md", "docs/measured-log.md"

// TestMeasuredPage compares the rows of docs/measured.md, one for each store, with the latest run
// of that store in the log.
func TestMeasuredPage(t *testing.T) {
	readHouse(t) // outside of the project's tree, this skips the test
	_, covered, found := strings.Cut(readText(t, measuredLog), "<!-- covered -->")
	covered, _, ended := strings.Cut(covered, "<!-- end of covered -->")
	if !found || !ended {
		t.Fatalf("%s has no table of covered faults", measuredLog)
	}
	report(t, checkMeasured(readText(t, measuredPage), covered))
}

// checkMeasured reports each store whose row does not show its latest run.
func checkMeasured(page, log string) []string {
	latest := map[string]string{}
	for _, c := range cells(log) {
		if len(c) > 11 && c[0] != "store" {
			faults, _, _ := strings.Cut(c[9], ":")
			violations := c[11]
			if strings.HasPrefix(violations, "0 in ") {
				violations = "none"
			}
			latest[c[0]] = strings.ReplaceAll(c[5]+" grants, "+faults+" faults, violations: "+violations, ",", "")
		}
	}
	var found []string
	for _, c := range cells(page) {
		if want, ok := latest[c[0]]; ok && len(c) == 7 {
			got := strings.ReplaceAll(c[2]+" grants, "+c[3]+" faults, violations: "+c[4], ",", "")
			if got != want {
				found = append(found, fmt.Sprintf("%s: %s has %s, its latest run in %s has %s", measuredPage, c[0], got, measuredLog, want))
			}
			delete(latest, c[0])
		}
	}
	for _, store := range slices.Sorted(maps.Keys(latest)) {
		found = append(found, fmt.Sprintf("%s: %s has no row", measuredPage, store))
	}
	return found
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
	const log = "| file | all | d | 11 | 3m | 9 | 1 | 1 | 1 | 1: cut 1 | 0 | I1 1: 0.1 |\n" +
		"| file | all | d | 12 | 3m | 1234 | 1 | 1 | 1 | 5: cut 5 | 0 | 0 in 1234 grants |\n"
	expect(t, checkMeasured("| file | all | 1,234 | 5 | none | – | – |\n", log), "")
	expect(t, checkMeasured("| file | all | 1,234 | 6 | none | – | – |\n", log), "its latest run in docs/measured-log.md has 1234 grants 5 faults")
	expect(t, checkMeasured("", log), "file has no row")
}
