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
