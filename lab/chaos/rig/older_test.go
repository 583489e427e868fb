package rig

import (
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
	if _, err := site.buildCommit(strings.Repeat("0", 40)); err == nil || !strings.Contains(err.Error(), "fetch the whole history") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}

// After a build that failed, the next row says again why it failed.
func TestOlderBuildFailsAgain(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		err := buildSource(dir, strings.Repeat("0", 40), filepath.Join(dir, "source"), filepath.Join(dir, "chaos"))
		if err == nil || !strings.Contains(err.Error(), "archive") {
			t.Errorf("got %v, want the error of git archive", err)
		}
	}
}

// Rows with an older padlock fail if one of the versions gets no lock. In a short run over HTTP,
// the client in Go may get none.
func TestVersionsMet(t *testing.T) {
	grant := func(life int) soak.Event { return soak.Event{Op: soak.Acquired, Life: life} }
	other := soak.Event{Op: soak.Other, Life: 1}
	programs := [][]string{{"", "other"}}
	for _, c := range []struct {
		set    setup
		events []soak.Event
		met    bool
	}{
		{setup{}, nil, true},
		{setup{programs: programs}, []soak.Event{other, grant(0), grant(1)}, true},
		{setup{programs: programs}, []soak.Event{other, grant(1)}, false},
		{setup{programs: programs}, []soak.Event{other, grant(0)}, false},
		{setup{programs: programs, foreign: true}, []soak.Event{other, grant(1)}, true},
	} {
		if err := c.set.versionsMet(&soak.Outcome{Events: c.events}); (err == nil) != c.met {
			t.Errorf("%d programs, events %v: %v", len(c.set.programs), c.events, err)
		}
	}
}
