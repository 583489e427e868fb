package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// The commands of the README print the output that it shows. Numbers, the host and the directory of
// the locks may differ.
func TestReadmeTranscript(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "padlock"), ".")
	build.Dir = filepath.Join(root, "cmd/padlock") // a module that this one does not require
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	report, err := os.ReadFile(filepath.Join(root, "examples/report.sh"))
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(filepath.Join(work, "examples"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := server.WriteProgram(filepath.Join(work, "examples", "report.sh"), report); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for _, b := range blocks(t, "console") {
		if b.page == "README.md" {
			shown.WriteString(b.text)
		}
	}
	script, want := split(shown.String())
	if strings.Count(script, "padlock ") < 4 {
		t.Fatalf("the README has no transcript of running, refused and status:\n%s", script)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PADLOCK_STORE=file://"+filepath.Join(dir, "locks"))
	got, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`\A`+pattern(want)+`\z`).Match(got) {
		t.Errorf("%v; it prints\n%s\nthe README shows\n%s", err, got, want)
	}
}

// split separates a transcript into a script and its output. A command in the background must have
// the lock before the next one runs, and is killed at the end.
func split(transcript string) (script, want string) {
	var commands []string
	for line := range strings.Lines(transcript) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		if !isCommand {
			want += line
			continue
		}
		commands = append(commands, command)
		if strings.HasSuffix(command, "&\n") {
			commands = append(commands, "until padlock status nightly-report >status; test $? = 75; do sleep 0.02; done\n")
		}
	}
	commands = append(commands, "kill $!; wait $! || true\n")
	return strings.Join(commands, ""), want
}

var (
	number = regexp.MustCompile(`[0-9]+(?:\\\.[0-9]+)?`)
	place  = regexp.MustCompile(`/home/\S*`)
)

// pattern is a regular expression for output that differs in numbers, hosts and places only.
func pattern(text string) string {
	p := regexp.QuoteMeta(text)
	p = strings.ReplaceAll(p, "web-3", "HOST")
	p = place.ReplaceAllString(p, "/PLACE")
	p = number.ReplaceAllString(p, `[0-9.]+`)
	p = strings.ReplaceAll(p, "ms\\)", `m?s\)`)
	return strings.NewReplacer("HOST", `[^ :]+`, "/PLACE", `/\S+`).Replace(p)
}
