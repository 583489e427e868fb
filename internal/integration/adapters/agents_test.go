package adapters

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/safety"
)

// An agent runs each command of docs/agents.md in a shell of its own.
type agent struct {
	t              *testing.T
	bin, dir, name string
	setup          string            // the lines before every command
	lines          map[string]string // the lines of the page, by their verb
}

// newAgent works in a checkout.
func newAgent(t *testing.T, bin, dir, name string) *agent {
	a := &agent{t, bin, dir, name, "", map[string]string{}}
	for i, block := range strings.Split(page(t, "agents.md"), "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if i == 0 {
			a.setup = strings.Replace(block, "AGENT=agent-1", "AGENT="+name, 1)
			continue
		}
		for line := range strings.Lines(block) {
			if verb, ok := strings.CutPrefix(line, "padlock "); ok {
				verb, _, _ = strings.Cut(verb, " ")
				a.lines[verb] = line
			}
		}
	}
	return a
}

// answer has the fields that an agent looks at.
type answer struct {
	Name     string
	Held     bool
	Released bool
	Exit     int
	Fence    uint64
	Seconds  float64
	Holders  []struct{ Label string }
}

// does runs the line of a verb, or another line, and returns its last answer or message.
func (a *agent) does(line string, exit int) answer {
	a.t.Helper()
	if known, ok := a.lines[line]; ok {
		line = known
	}
	cmd := exec.Command("sh", "-c", a.setup+line)
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "PATH="+a.bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		a.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != exit {
		a.t.Fatalf("%s: %s exits with %d, want %d\n%s", a.name, line, got, exit, out)
	}
	var last answer
	text := strings.TrimSpace(string(out))
	if text == "" {
		return last
	}
	if err := json.Unmarshal([]byte(text[strings.LastIndex(text, "\n")+1:]), &last); err != nil {
		a.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return last
}

// agents share a checkout: the second one is in a worktree of the first one's.
func agents(t *testing.T, bin string) {
	dir, other := t.TempDir(), t.TempDir()+"/tree"
	for _, args := range [][]string{
		{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "begin"},
		{"worktree", "add", "-q", other},
	} {
		git := exec.Command("git", args...)
		git.Dir = dir
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	one, two := newAgent(t, bin, dir, "agent-1"), newAgent(t, bin, other, "agent-2")
	for _, verb := range []string{"acquire", "extend", "release", "status", "ls"} {
		if one.lines[verb] == "" {
			t.Fatalf("the page has no line of %s", verb)
		}
	}
	two.lines["try"] = strings.Replace(two.lines["acquire"], "-w 60", "-n", 1)
	if got := one.does("acquire", 0); got.Name != "src/server" || got.Fence == 0 {
		t.Errorf("acquire: %+v", got)
	}
	if got := two.does("try", 75); got.Exit != 75 || len(got.Holders) != 1 || got.Holders[0].Label != "agent-1: rename Server" {
		t.Errorf("the refusal: %+v", got)
	}
	beside := strings.NewReplacer("-w 60", "-n", "src-server", "src-client", "src/server", "src/client").Replace(one.lines["acquire"])
	two.does(beside, 0)
	two.does(strings.Replace(one.lines["release"], "src-server", "src-client", 1), 0)
	if got := two.does("padlock acquire --json --path -n src", 75); len(got.Holders) != 1 || got.Holders[0].Label != "agent-1: rename Server" {
		t.Errorf("the folder: %+v", got)
	}
	for verb, exit := range map[string]int{"status": 75, "ls": 0} {
		if got := two.does(verb, exit); got.Name != "src/server" || !got.Held || len(got.Holders) != 1 {
			t.Errorf("%s: %+v", verb, got)
		}
	}
	if got := one.does("extend", 0); got.Seconds < 240 {
		t.Errorf("extend: %+v", got)
	}
	if got := one.does("release", 0); !got.Released {
		t.Errorf("release: %+v", got)
	}
	if got := two.does("ls", 0); got.Name != "" {
		t.Errorf("ls after the release: %+v", got)
	}
	first := two.does("acquire", 0)
	one.does("padlock break --json --yes src/server", 0) // as a person does
	two.does("extend", 79)
	got := one.does("acquire", 0)
	safety.Rises(t, got.Fence, first.Fence, got, first)
	status := exec.Command("git", "status", "--porcelain")
	status.Dir = dir
	if out, err := status.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("git sees the locks: %v\n%s", err, out)
	}
}
