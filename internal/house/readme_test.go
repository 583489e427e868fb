package house

import (
	"slices"
	"strings"
	"testing"
)

// testCommand is how the README and CONTRIBUTING tell a reader to test padlock. .ci/run types it as
// they print it.
const testCommand = "SETUP=yes make test"

// TestReadmeCommands checks that what the README tells a reader to type is what .ci/run types. The
// first block of the README is typed by .ci/first-command, which reads it from the page.
func TestReadmeCommands(t *testing.T) {
	for _, f := range readHouse(t) {
		switch f.path {
		case "README.md":
			if !slices.Contains(plainBlocks(string(f.src)), testCommand+"\n") {
				t.Errorf("README.md has no block with %q alone", testCommand)
			}
		case "CONTRIBUTING.md":
			if !slices.Contains(plainBlocks(string(f.src)), testCommand+"\n") {
				t.Errorf("CONTRIBUTING.md has no block with %q alone", testCommand)
			}
		case ".ci/run":
			for _, want := range []string{"\n" + testCommand + " ||", "\n.ci/steps first_command "} {
				if !strings.Contains(string(f.src), want) {
					t.Errorf(".ci/run does not run %q", strings.TrimSpace(want))
				}
			}
		}
	}
}

// plainBlocks returns the fenced blocks of a page that name no language.
func plainBlocks(page string) (texts []string) {
	for i, text := range strings.Split("\n"+page, "\n```") {
		if language, block, _ := strings.Cut(text, "\n"); i%2 == 1 && language == "" {
			texts = append(texts, block+"\n")
		}
	}
	return texts
}
