package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// A report is the table at the end of all runs.
type report struct {
	passed     map[test]bool
	skipped    map[string]int // tests, by reason
	slow       map[test]float64
	red, flaky []test
}

func (t *report) add(r *run) {
	if t.slow == nil {
		t.passed, t.slow, t.skipped = map[test]bool{}, map[test]float64{}, map[string]int{}
	}
	maps.Copy(t.passed, r.passed)
	maps.Copy(t.slow, r.slow)
	for why, n := range r.skipped {
		t.skipped[why] += n
	}
}

func (t *report) print() {
	fmt.Printf("\n%8s  %s\n", "seconds", "tests of 3 s and more, which belong to tier 2 (server.Thorough)")
	byTime := func(a, b test) int { return cmp.Compare(t.slow[b], t.slow[a]) }
	for _, s := range slices.SortedFunc(maps.Keys(t.slow), byTime) {
		fmt.Printf("%8.1f  %s %s\n", t.slow[s], directory(s.pkg), s.name)
	}
	fmt.Printf("\n%8s  %s\n", "tests", "skipped, because")
	skipped := 0
	for _, why := range slices.Sorted(maps.Keys(t.skipped)) {
		fmt.Printf("%8d  %s\n", t.skipped[why], why)
		skipped += t.skipped[why]
	}
	fmt.Println()
	for _, f := range t.flaky {
		fmt.Printf("flaky: %s %s failed, and passed alone\n", directory(f.pkg), f.name)
	}
	for _, f := range t.red {
		fmt.Printf("red: %s %s\n", directory(f.pkg), f.name)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", len(t.passed), len(t.red), skipped)
}
