package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// missing skips a test that lacks a program of .ci/packages. Under CI=true, the test fails.
func missing(t *testing.T, program string) {
	t.Helper()
	what := program + " is missing; the Debian package is in .ci/packages"
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// condition is what scripts may ask besides testscript's own conditions. [needs:PROGRAM] is true if
// the program is installed. If it is not, the script fails under CI=true. [thorough] is true if the
// scripts of tier 2 run, too.
func condition(text string) (bool, error) {
	if text == "thorough" {
		return server.IsThorough(), nil
	}
	program, ok := strings.CutPrefix(text, "needs:")
	if !ok || program == "" {
		return false, fmt.Errorf("the condition %q is unknown", text)
	}
	_, err := exec.LookPath(program)
	if err != nil && os.Getenv("CI") == "true" {
		return false, fmt.Errorf("%s is missing; the Debian package is in .ci/packages", program)
	}
	return err == nil, nil
}

func TestCondition(t *testing.T) {
	for _, c := range []struct {
		ci, text string
		ok, fail bool
	}{
		{"true", "needs:sh", true, false},
		{"", "needs:sh", true, false},
		{"", "needs:padlock-is-not-here", false, false},
		{"true", "needs:padlock-is-not-here", false, true},
		{"", "needs:", false, true},
		{"", "knows:sh", false, true},
	} {
		t.Setenv("CI", c.ci)
		if ok, err := condition(c.text); ok != c.ok || (err != nil) != c.fail {
			t.Errorf("CI=%q, [%s]: %v, %v", c.ci, c.text, ok, err)
		}
	}
}

// Testscript's own condition [exec:PROGRAM] would leave lines out under CI=true as well.
func TestScriptsSkipNothingInCI(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no scripts", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("[exec:")) || bytes.Contains(text, []byte("[!exec:")) {
			t.Errorf("%s: write [needs:PROGRAM] instead of [exec:PROGRAM]", file)
		}
	}
}
