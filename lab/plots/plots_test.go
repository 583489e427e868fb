package main

import (
	"html"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages show the published figures, each experiment and each summary somewhere.
func TestPagesAreCurrent(t *testing.T) {
	all, err := read(published)
	if err != nil {
		t.Fatal(err)
	}
	whole := ""
	for _, name := range pages {
		text, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Fatal(err)
		}
		if fill(string(text), all) != string(text) {
			t.Errorf("%s does not have the figures of published.json; run make plots", name)
		}
		whole += string(text)
	}
	for _, r := range all {
		if !strings.Contains(whole, "\n**"+r.Name+"**, rounds: ") {
			t.Errorf("no page has the experiment %s", r.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(summaries)) {
		table := summaries[name].write(all)
		if table == "" || !strings.Contains(whole, table) {
			t.Errorf("no page has the summary %s", name)
		}
	}
}

// The pictures have the published figures, and the README says them in words, too.
func TestPicturesAreCurrent(t *testing.T) {
	all, err := read(published)
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range charts {
		want := c.draw(all)
		if got, err := os.ReadFile(filepath.Join(images, name)); err != nil || want == "" || string(got) != want {
			t.Errorf("%s does not have the figures of published.json; run make plots (%v)", name, err)
		}
		if words := "![" + c.words(all) + "](docs/images/" + name + ")"; !strings.Contains(strings.Join(strings.Fields(string(readme)), " "), words) {
			t.Errorf("README.md does not show %s", words)
		}
		if c.draw(nil) != "" {
			t.Errorf("%s is drawn without figures", name)
		}
	}
}

// The picture of the questions has every answer of the page, each short enough for its box.
func TestChoiceIsCurrent(t *testing.T) {
	page, err := os.ReadFile(choicePage)
	if err != nil {
		t.Fatal(err)
	}
	want := drawChoice(string(page))
	if got, err := os.ReadFile(choicePicture); err != nil || string(got) != want {
		t.Errorf("which-store.svg does not have the answers of which-store.md; run make plots (%v)", err)
	}
	if n := strings.Count(want, `class="answer"`); strings.Count(want, `class="question"`) != 3 || n < 20 {
		t.Errorf("it has %d answers", n)
	}
	for _, m := range regexp.MustCompile(`<text class="(?:when|take|page)"[^>]*>([^<]*)`).FindAllStringSubmatch(want, -1) {
		if n := len([]rune(html.UnescapeString(m[1]))); n > 36 {
			t.Errorf("%q is too long for a box", m[1])
		}
	}
}

// A table is written between its marks, and nothing else of the page is changed. A run without the
// figures of a table leaves it as it is.
func TestFill(t *testing.T) {
	const first, last = "before\n<!-- make plots writes this table: processes -->\n", "<!-- end of the table -->\nafter\n"
	const page = first + "\n| old |\n\n" + last
	if got := fill(page, nil); got != page {
		t.Errorf("a run without figures changes the page to:\n%s", got)
	}
	all := readText(t, `{"Name":"50 processes","Rounds":1,"Columns":["cmds/s"],"Rows":["padlock","redsync"],
		"Trials":{"padlock":[{"cmds/s":6.94}],"redsync":[{"cmds/s":12345.6}]},
		"Targets":[{"Row":"padlock","Column":"cmds/s","AtMost":10,"Value":6.94,"Met":true}]}`)
	want := first + "\n**50 processes**, rounds: 1\n\n|  | cmds/s | target |\n|---|---|---|\n| padlock | 6.94 | cmds/s 6.94 ≤ 10 met |\n| redsync | 12,346 |  |\n\n" + last
	if got := fill(page, all); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// readText reads experiments, as from a file of a run.
func readText(t *testing.T, experiments ...string) run {
	t.Helper()
	text := "== bench\n"
	for _, e := range experiments {
		text += strings.Join(strings.Fields(e), " ") + "\n"
	}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A run that is merged replaces its experiments by their medians, and leaves the others.
func TestMerge(t *testing.T) {
	const file = `{"Name":"file","Rounds":41,"Columns":["ns/op"],"Rows":["ours"],"Trials":{"ours":[{"ns/op":2950}]}}`
	const procs = `{"Name":"procs","Rounds":5,"Columns":["s"],"Rows":["padlock","redsync"],"Trials":{"padlock":[{"s":4938}],"redsync":[{"s":75}]},` +
		`"Targets":[{"Row":"redsync","Column":"s","AtMost":80,"Value":75,"Met":true}]}`
	added := readText(t, `{"Name":"procs","Rounds":3,"Columns":["s"],"Rows":["padlock"],"Trials":{"padlock":[{"s":1},{"s":6543.21},{"s":7000}]},
		"Targets":[{"Row":"padlock","Column":"s","AtLeast":5,"Value":6543.21,"Met":true}]}`, `{"Name":"none of the pages","Trials":{"padlock":[{"ms":1}]}}`)
	const want = `{"Name":"procs","Rounds":3,"Columns":["s"],"Rows":["padlock"],"Trials":{"padlock":[{"s":6543}]},"Targets":[{"Row":"padlock","Column":"s","AtLeast":5,"Value":6543,"Met":true}]}`
	all := readText(t, file, procs)
	if err := all.merge(added); err != nil || string(all.text()) != file+"\n"+want+"\n" {
		t.Errorf("%v, got:\n%s\nwant:\n%s", err, all.text(), want)
	}
	if err := readText(t, file).merge(added); err == nil {
		t.Error("a run without a published experiment was merged")
	}
}
