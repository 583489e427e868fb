package rig

import (
	"strings"
	"testing"
)

func TestOlderCommit(t *testing.T) {
	for _, group := range []string{"files-and-redis", "sql"} {
		if commit, err := olderCommit(olderText, group); err != nil || len(commit) != 40 {
			t.Errorf("older.txt: %s: %q, %v, want a whole commit", group, commit, err)
		}
	}
	for _, text := range []string{"# sql\n", "files aaaa\n", "sql aaaa\nsql bbbb\n"} {
		if commit, err := olderCommit(text, "sql"); err == nil {
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
