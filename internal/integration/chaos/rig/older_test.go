package rig

import (
	"strings"
	"testing"
)

func TestOlderCommit(t *testing.T) {
	commit, err := olderCommit(olderText)
	if err != nil || len(commit) != 40 {
		t.Errorf("older.txt: %q, %v, want a whole commit", commit, err)
	}
	for _, text := range []string{"# none\n", "aaaa\nbbbb\n"} {
		if commit, err := olderCommit(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, commit)
		}
	}
}

// A commit that the clone lacks ends the row with an error; it is never left out.
func TestOlderCommitMissing(t *testing.T) {
	if _, err := git("rev-parse", "HEAD"); err != nil {
		t.Skip("no git, or no clone: ", err)
	}
	site, err := NewSite(1)
	if err != nil {
		t.Fatal(err)
	}
	defer site.End()
	if _, err := site.older(strings.Repeat("0", 40)); err == nil || !strings.Contains(err.Error(), "fetch the whole history") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}
