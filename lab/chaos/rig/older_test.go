package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/lab/soak"
)

// A commit that the clone lacks ends the row with an error; it is never left out.
func TestOlderCommitMissing(t *testing.T) {
	if _, err := git("rev-parse", "HEAD"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no git, or no clone: ", err)
		}
		t.Skip("no git, or no clone: ", err)
	}
	site, err := NewSite(1)
	if err != nil {
		t.Fatal(err)
	}
	defer site.End()
	if err := try(func() { site.buildCommit(strings.Repeat("0", 40), chaosProgram) }); err == nil || !strings.Contains(err.Error(), "fetch the whole history") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}

// After a build that failed, the next row says again why it failed.
func TestOlderBuildFailsAgain(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		err := try(func() {
			buildSource(dir, strings.Repeat("0", 40), chaosProgram, filepath.Join(dir, "source"), filepath.Join(dir, "chaos"))
		})
		if err == nil || !strings.Contains(err.Error(), "archive") {
			t.Errorf("got %v, want the error of git archive", err)
		}
	}
}

// A row fails if one kind of its workers gets no lock.
func TestAllMet(t *testing.T) {
	grant := func(life int) soak.Event { return soak.Event{Op: soak.Acquired, Life: life} }
	other := soak.Event{Op: soak.Other, Life: 1}
	both := setup{kinds: []string{"false", "true"}, kindOf: func(_ int, other bool) string { return fmt.Sprint(other) }}
	for _, c := range []struct {
		set    setup
		events []soak.Event
		met    bool
	}{
		{setup{}, nil, true},
		{both, []soak.Event{other, grant(0), grant(1)}, true},
		{both, []soak.Event{other, grant(1)}, false},
		{both, []soak.Event{other, grant(0)}, false},
	} {
		if err := c.set.allMet(&soak.Outcome{Events: c.events}, func(string) {}); (err == nil) != c.met {
			t.Errorf("%v, events %v: %v", c.set.kinds, c.events, err)
		}
	}
}
