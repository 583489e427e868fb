package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/lab/bench/measure"
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

// pages have the tables of the charts.
var pages = []string{
	"../../docs/performance.md", "../../docs/scale.md", "../../docs/internals/performance-rows.md", "../../docs/internals/scale.md",
}

// The tables of the pages show the published figures. Every chart but that of the README stands on
// a page with its table, and every summary stands on a page.
func TestTablesAreCurrent(t *testing.T) {
	all, err := readFile(published)
	if err != nil {
		t.Fatal(err)
	}
	var whole string
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if fill(string(text), all) != string(text) {
			t.Errorf("%s does not have the figures of published.json; run make plots", name)
		}
		whole += string(text)
	}
	for _, c := range charts {
		table := c.table(all)
		if c.file != "readme.svg" && (table == "" || !strings.Contains(whole, table) || !strings.Contains(whole, "images/"+c.file+")")) {
			t.Errorf("no page has %s and its table", c.file)
		}
	}
	for _, s := range summaries {
		if table := s.write(all); table == "" || !strings.Contains(whole, table) {
			t.Errorf("no page has the summary %s", s.name)
		}
	}
}

// A figure that is 0 has no place on a logarithmic axis, and the chart is drawn without it.
func TestZeroOnALogarithmicAxis(t *testing.T) {
	const name = "50 processes blocked for 10s"
	c := chart{title: "t", axis: "a", log: true, series: []source{{"", name, "cmds/s", own}}, rows: []string{"padlock", "redsync"}}
	lines := c.collect(run{name: {Trials: map[string][]measure.Figures{"padlock": {{"cmds/s": 0}}, "redsync": {{"cmds/s": 10}}}}})
	if len(lines) != 1 || len(lines[0].points) != 1 || lines[0].points[0].row != "redsync" {
		t.Fatalf("the points are %+v", lines)
	}
	if text := string(c.picture(lines)); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Count(text, "<circle") != 1 {
		t.Errorf("the picture is:\n%s", text)
	}
}

// A table is written between its marks, and nothing else of the page is changed. A run without the
// figures of a table leaves it as it is.
func TestFill(t *testing.T) {
	first := fmt.Sprintf(tableBegin, "redis-blocked.svg")
	page := "before\n" + first + "\n| old |\n\n" + tableEnd + "after\n"
	if got := fill(page, run{}); got != page {
		t.Errorf("a run without figures changes the page to:\n%s", got)
	}
	const name = "50 processes blocked for 10s"
	x := 6.94
	all := run{name: {Name: name,
		Trials:  map[string][]measure.Figures{"padlock": {{"cmds/s": 6.94}}, "redsync": {{"cmds/s": 12345.6}}},
		Targets: []measure.Verdict{{Target: measure.Target{Row: "padlock", Column: "cmds/s", AtMost: 10}, Value: &x, Met: true}},
	}}
	want := "before\n" + first + "\n| | cmds/s | target |\n|---|---|---|\n| padlock | 6.94 | cmds/s 6.94 ≤ 10 met |\n| redsync | 12,346 |  |\n\n" + tableEnd + "after\n"
	if got := fill(page, all); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestFiguresAreReadable(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 2: "2", 0.00432: "0.0043", 0.0649: "0.065", 0.456: "0.46", 9.876: "9.88", 12.34: "12.3", 999.6: "1,000",
		1234567: "1,234,567", -331.2: "-331", -1234: "-1,234",
	} {
		if got := figure(x, true); got != want {
			t.Errorf("%v is written as %q, want %q", x, got, want)
		}
	}
}

// A run that is merged replaces its experiments by their medians, and leaves the others.
func TestMerge(t *testing.T) {
	const file = `{"Name":"file, uncontended","Rounds":41,"Trials":{"filestore (driver)":[{"ns/op":2950}],"gofrs/flock":[{"ns/op":4790}]}}
`
	const old = file + `{"Name":"procs, 16 processes","Rounds":5,"Trials":{"padlock":[{"hand-offs/s":4938}],"redsync":[{"hand-offs/s":75}]}}
`
	const added = `{"Name":"procs, 16 processes","Rounds":3,"Trials":{"padlock":[{"hand-offs/s":1,"locks/s":9},{"hand-offs/s":6543.21},{"hand-offs/s":7000}],` +
		`"none of the rows":[{"hand-offs/s":1}]},"Targets":[{"Row":"padlock","Column":"hand-offs/s","AtLeast":5,"Value":6543.21,"Met":true}]}
{"Name":"none of the charts","Rounds":3,"Trials":{"padlock":[{"ms":1}]}}
`
	const target = `"Targets":[{"Row":"padlock","Column":"hand-offs/s","AtLeast":5,"Value":6543,"Met":true}]}
`
	for keepRows, want := range map[bool]string{
		false: file + `{"Name":"procs, 16 processes","Rounds":3,"Trials":{"padlock":[{"hand-offs/s":6543}]},` + target,
		true:  file + `{"Name":"procs, 16 processes","Rounds":3,"Trials":{"padlock":[{"hand-offs/s":6543}],"redsync":[{"hand-offs/s":75}]},` + target,
	} {
		runs, run := filepath.Join(t.TempDir(), "published.json"), filepath.Join(t.TempDir(), "run.json")
		if err := errors.Join(os.WriteFile(runs, []byte(old), 0o600), os.WriteFile(run, []byte(added), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := merge(runs, run, keepRows); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(runs)
		if err != nil || string(got) != want {
			t.Errorf("keepRows %v: %v, got:\n%s\nwant:\n%s", keepRows, err, got, want)
		}
	}
}

// A file without figures for the charts is probably the wrong file.
func TestMergeOfNothing(t *testing.T) {
	runs, run := filepath.Join(t.TempDir(), "published.json"), filepath.Join(t.TempDir(), "run.json")
	for _, text := range []string{"", "[1,2]\n", `{"Name":"none of the charts","Trials":{"padlock":[{"ms":1}]}}` + "\n"} {
		if err := errors.Join(os.WriteFile(runs, nil, 0o600), os.WriteFile(run, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := merge(runs, run, false); err == nil || !strings.Contains(err.Error(), run) {
			t.Errorf("%q: %v", text, err)
		}
	}
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
	if x, ok := run.median("uncontended, 64 goroutines", "padlock", "share"); !ok || x != 0.7 {
		t.Errorf("share %v, %v", x, ok)
	}
	if x, ok := run.median(coreName, "memory lock | channel", "padlock"); !ok || x != 0.2 {
		t.Errorf("core %v, %v", x, ok)
	}
	if _, ok := run.median(coreName, "file lock | gofrs/flock", "padlock"); ok {
		t.Error("a pair was drawn that the run does not have")
	}
}
