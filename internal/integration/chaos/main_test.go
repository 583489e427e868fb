package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/integration/chaos/rig"
	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/internal/soak/linear"
)

// The page of the results takes a line in each of its tables, and knows then
// what was done.
func TestPublish(t *testing.T) {
	text, err := os.ReadFile("../../../docs/measured.md")
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "measured.md")
	if err := os.WriteFile(page, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &settings{append: page, resume: true}
	s.Seed = 123456789012
	row := rig.Rows()[0]
	for _, all := range []bool{false, true} {
		if s.done(row, all) {
			t.Errorf("all=%v: done before it was begun", all)
		}
		p := &soak.Report{Name: row.Name, Seed: s.Seed, Grants: 9}
		if err := s.publish(row, all, p, linear.Verdict{}); err != nil {
			t.Fatal(err)
		}
		if !s.done(row, all) {
			t.Errorf("all=%v: not done after it was published", all)
		}
	}
	after, err := os.ReadFile(page)
	if err != nil || strings.Count(string(after), "| 123456789012 |") != 2 {
		t.Errorf("the page has not the two lines: %v", err)
	}
}

func TestSum(t *testing.T) {
	page := "a\n<!-- sum -->\nold\n<!-- end of sum -->\n<!-- covered -->\n| store | counts on | date | seed | time | grants | per s | p50 | p99 | faults | ambiguous | violations | porcupine |\n" +
		"| a | x | d | 1 | 2m | 1200000 | 5 | 1 | 1 | 0:  | 0 | 0 in 1200000 grants (95 %: below 1 in 400000) | 9 ok, 0 illegal, 0 unknown |\n" +
		"| b | x | d | 1 | 2m | 34 | 5 | 1 | 1 | 5012: cut 5, reset 5007 | 0 | 0 in 34 grants (95 %: below 1 in 11) | 9 ok, 0 illegal, 0 unknown |\n" +
		"| c | x | d | 1 | 2m | 1 | 5 | 1 | 1 | 1: cut 1 | 0 | I1 1: 0.0 per 1,000 grants, 1.00 per fault | 9 ok, 0 illegal, 0 unknown |\n" +
		"| d | x | d | 1 | 2m | 1 | 5 | 1 | 1 | 1: cut 1 | 0 | 0 in 1 grants (95 %: below 1 in 0) | 9 ok, 1 illegal, 0 unknown |\n<!-- end of covered -->\n"
	got := summed(page)
	want := "Together: 4 runs with 1,200,036 grants and 5,014 faults; in the 2 without a violation 1,200,034 grants and 5,012 faults."
	if !strings.Contains(got, want) || strings.Contains(got, "old") || summed(got) != got {
		t.Errorf("the sum is not\n%s\nin\n%s", want, got)
	}
	if summed("a page without marks") != "a page without marks" {
		t.Error("a page without marks was changed")
	}
}
