package certificate

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/certified.md")

const docs = "../../docs"

// docs/certified.md says what the files in docs/certified say, and none of them was changed.
func TestPage(t *testing.T) {
	path, dir := filepath.Join(docs, "certified.md"), filepath.Join(docs, "certified")
	if *update {
		if err := Publish(path, dir); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := paths(dir)
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	talks, _ := filepath.Glob(filepath.Join(dir, "*-conversation.json"))
	for _, path := range paths {
		talks = slices.DeleteFunc(talks, func(talk string) bool { return talk == Conversation(path) })
	}
	if len(talks) > 0 {
		t.Errorf("conversations without a certificate: %q", talks)
	}
	held := 0
	for _, path := range paths {
		c, err := Read(path)
		if err == nil && c.Verdict == Held {
			held++
		}
		if err == nil && (c.For == "" || c.Short() || strings.HasSuffix(c.Padlock, "with changes")) {
			t.Errorf("%s does not count: it was made by %s with --for %s; see CONTRIBUTING.md", path, c.Padlock, c.For)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if line := fmt.Sprintf("- [%d services](docs/certified.md) were asked what can be asked from outside: %d held.", len(paths), held); !strings.Contains(string(readme), line) {
		t.Errorf("README.md has not the line %q: %v", line, err)
	}
	want, err := Fill(string(page), dir)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != want {
		t.Error("docs/certified.md does not agree with the files in docs/certified: run make certified")
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	const page = "head\n<!-- make certified writes what follows -->\nold\n<!-- end of what is made -->\nfoot\n"
	dir := t.TempDir()
	data, err := example().Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "redis-7.json")
	if err := errors.Join(os.WriteFile(path, data, 0o600), os.WriteFile(Conversation(path), []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	text, err := Fill(page, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"head\n<!-- make certified writes what follows -->\n\n| service |", "\n<!-- end of what is made -->\nfoot\n",
		"| [redis-7](certified/redis-7.json), redis 7.0.15 <&> | **broke** | 4, 1, 1 |", "| not asked | 2026-11-28, 0.81 |",
		"\n### redis-7\n\n- broke `conditions/16`: round 4: 2 of 16\n",
		"- as it was set up, persistence: no append-only file; set appendonly yes\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if strings.Contains(text, "old") {
		t.Error("the old part is still there")
	}
	if _, err := Fill("no marks", dir); err == nil {
		t.Error("a page without marks was taken")
	}
}
