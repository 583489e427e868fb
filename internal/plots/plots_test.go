package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const pictures = "../../docs/images"

// The pictures in the tree show the published figures.
func TestPicturesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	if err := drawAll("published.json", dir); err != nil {
		t.Fatal(err)
	}
	for _, c := range charts {
		want, err := os.ReadFile(filepath.Join(dir, c.file))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		got, err := os.ReadFile(filepath.Join(pictures, c.file))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/images/%s is not what published.json shows; run make plots (%v)", c.file, err)
		}
	}
}

func TestPicturesAreSmall(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(pictures, "*.svg"))
	if err != nil || len(files) < len(charts) {
		t.Fatalf("found %d pictures: %v", len(files), err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Size() > 200<<10 {
			t.Errorf("%s is larger than 200 KB (%v)", name, err)
		}
	}
}

// The published figures are those of the tables in docs/performance.md, which contain medians. The
// JSON output of those runs was not kept.
func TestPublishedFiguresAreInTheTables(t *testing.T) {
	page, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("published.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	published, err := readRun(f)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), ",", "")
	for name, e := range published {
		if name == coreName {
			continue // it is made from the other experiments
		}
		for row, trials := range e.Trials {
			for column, x := range trials[0] {
				if !shown(text, row, x) {
					t.Errorf("%s: %s: docs/performance.md does not have %s %v", name, row, column, x)
				}
			}
		}
	}
}

// shown reports whether a table has x, in the line or the column of row.
func shown(text, row string, x float64) bool {
	for _, form := range []string{
		strconv.FormatFloat(x, 'f', -1, 64), strconv.FormatFloat(x, 'f', 1, 64),
		strconv.FormatFloat(x, 'f', 2, 64), strconv.FormatFloat(x/1000, 'f', -1, 64),
	} {
		for _, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, "|") && containsNumber(line, form) && (strings.HasPrefix(line, "| "+row+" |") || !strings.Contains(text, "| "+row+" | ")) {
				return true
			}
			if strings.HasPrefix(line, "| 50 processes") && containsNumber(line, form) {
				return true
			}
		}
	}
	return false
}

// containsNumber reports whether line has the number, and not as a part of a longer one.
func containsNumber(line, number string) bool {
	fields := strings.FieldsFunc(line, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	for _, f := range fields {
		if strings.TrimRight(f, ".") == number {
			return true
		}
	}
	return false
}

// For a run of several rounds, a chart shows the medians. A share is computed within each round.
func TestRunOfSeveralRounds(t *testing.T) {
	const padlock = `"padlock":[{"ops/s":50},{"ops/s":90},{}]`
	const limit = `"limit-rueidis-1conn":[{"ops/s":100},{"ops/s":100},{"ops/s":100}]`
	const memory = `"padlock over memstore":[{"ns/op":300},{"ns/op":100},{"ns/op":200}],"channel semaphore":[{"ns/op":30}]`
	run, err := readRun(strings.NewReader("== bench\n" +
		`{"Name":"uncontended, 64 goroutines","Rounds":3,"Trials":{` + padlock + "," + limit + "}}\n" +
		`{"Name":"memory, uncontended","Trials":{` + memory + "}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if x, ok := run["uncontended, 64 goroutines"].median("padlock", "share"); !ok || x != 0.7 {
		t.Errorf("share %v, %v", x, ok)
	}
	if x, ok := run[coreName].median("memory lock | channel", "padlock"); !ok || x != 0.2 {
		t.Errorf("core %v, %v", x, ok)
	}
	if _, ok := run[coreName].median("file lock | gofrs/flock", "padlock"); ok {
		t.Error("a pair was drawn that the run does not have")
	}
}
