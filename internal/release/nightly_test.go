package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// Before a release, each slice of tier 2 is green at the commit, or its row has a note. Changes of
// pages alone, among which the table is, need no new run.
func TestNightlyCheck(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts are for Linux")
	}
	dir := t.TempDir()
	script, err := os.ReadFile("../../.ci/nightly")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/.ci", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := server.WriteProgram(dir+"/.ci/nightly", script); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) (string, error) {
		c := exec.Command(name, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := c.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	commit := func(file, text string) string {
		t.Helper()
		if err := os.MkdirAll(dir+"/docs/internals", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := run("sh", "-c", "git add -A && git -c user.name=a -c user.email=a@b.example commit -qm x && git rev-parse --short HEAD")
		if err != nil {
			t.Fatal(out, err)
		}
		return out
	}
	if out, err := run("git", "init", "-q"); err != nil {
		t.Fatal(out, err)
	}
	first := commit("code", "1")
	second := commit("code", "2")
	row := "face\t2026-01-02T03:04Z\tCOMMIT\t7\t0.1\t"
	for _, c := range []struct {
		rows string
		good bool
	}{
		{strings.ReplaceAll(row+"green\n", "COMMIT", second), true},
		{strings.ReplaceAll(row+"green\n", "COMMIT", first), false},
		{strings.ReplaceAll(row+"green note: only a comment\n", "COMMIT", first), true},
		{strings.ReplaceAll(row+"red red: ./x TestX\n", "COMMIT", second), false},
		{strings.ReplaceAll(row+"red red: ./x TestX note: the server's fault\n", "COMMIT", second), true},
	} {
		commit("docs/internals/nightly.tsv", "# slice\twhen\tcommit\tseconds\tload before\tresult\n"+c.rows)
		if out, err := run(".ci/nightly", "check"); (err == nil) != c.good {
			t.Errorf("%q: %v, %s", c.rows, err, out)
		}
	}
}
