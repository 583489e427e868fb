package house

import (
	"regexp"
	"slices"
	"strconv"
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

// TestReadmeIsShort keeps the README a page that a newcomer reads to its end.
func TestReadmeIsShort(t *testing.T) {
	readHouse(t) // outside of the project's tree, this skips the test
	if n := len(strings.Fields(readText(t, "README.md"))); n > 950 {
		t.Errorf("README.md has %d words, and may have 950: move something to a page", n)
	}
}

// TestReadmeCountsAsThePageOfTheField compares the two figures of the README with docs/field.md.
func TestReadmeCountsAsThePageOfTheField(t *testing.T) {
	readHouse(t)
	readme := regexp.MustCompile(`\[(\d+) failures .*; in (\d+) it does`).FindStringSubmatch(readText(t, "README.md"))
	page := readText(t, "docs/field.md")
	all := regexp.MustCompile(`reported (\d+) failures`).FindStringSubmatch(page)
	same := regexp.MustCompile(`In the (\d+) below it is \*\*no better`).FindStringSubmatch(page)
	if readme == nil || all == nil || same == nil || readme[1] != all[1] || readme[2] != same[1] {
		t.Errorf("README.md says %q, docs/field.md says %q and %q", readme, all, same)
	}
}

// TestReadmeSaysWhatRedisCompiles compares the README with what a program compiles that imports padlock
// and redisstore: the packages, and the lines within 5 %.
func TestReadmeSaysWhatRedisCompiles(t *testing.T) {
	files := readHouse(t)
	lines := map[string]int{".": 0, "stores/redisstore": 0}
	for grown := true; grown; {
		before := len(lines)
		for _, f := range files {
			if _, in := lines[f.pkg()]; !in || f.ast == nil || f.test() {
				continue
			}
			for _, spec := range f.ast.Imports {
				if path := strings.Trim(spec.Path.Value, `"`); strings.HasPrefix(path, padlockPath+"/") {
					lines[strings.TrimPrefix(path, padlockPath+"/")] = 0
				}
			}
		}
		grown = len(lines) > before
	}
	total := 0
	for _, f := range files {
		if _, in := lines[f.pkg()]; in && f.ast != nil && !f.test() {
			total += codeLines(f.src)
		}
	}
	said := regexp.MustCompile(`(\d+) packages and (\d+),(\d{3})\s+lines of padlock`).FindStringSubmatch(readText(t, "README.md"))
	if said == nil {
		t.Fatalf("README.md does not say what a program on Redis compiles: it is %d packages and %d lines", len(lines), total)
	}
	packages, _ := strconv.Atoi(said[1])
	if n, _ := strconv.Atoi(said[2] + said[3]); packages != len(lines) || n < total*95/100 || n > total*105/100 {
		t.Errorf("README.md says %q: it is %d packages and %d lines", said[0], len(lines), total)
	}
}
