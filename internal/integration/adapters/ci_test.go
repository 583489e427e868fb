package adapters

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/padlock-go/padlock/internal/server"
)

// A job is what the two services of the page have in common.
type job struct {
	env    map[string]string
	script []string
}

// jobs returns the jobs of the YAML on the page.
func jobs(t *testing.T) map[string]job {
	t.Helper()
	all := map[string]job{}
	for _, block := range strings.Split(page(t, "adapters.md"), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		var file map[string]yaml.Node
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		for name, node := range file {
			var github map[string]struct {
				Env   map[string]string
				Steps []struct{ Uses, Run string }
			}
			var gitlab struct {
				Variables map[string]string
				Script    []string
			}
			switch {
			case name == "jobs" && node.Decode(&github) == nil:
				for _, g := range github {
					j := job{env: g.Env}
					for _, step := range g.Steps {
						if step.Uses == "" {
							j.script = append(j.script, step.Run)
						}
					}
					all["GitHub"] = j
				}
			case name != "jobs" && node.Decode(&gitlab) == nil:
				all["GitLab"] = job{gitlab.Variables, gitlab.Script}
			default:
				t.Errorf("no job of a service: %s", text)
			}
		}
	}
	return all
}

// gitClone and goInstall stand in for git and go: a clone is a link to this tree, and what is
// installed are the programs that were built of it.
const (
	gitClone  = `test "$*" = "clone --depth 1 https://github.com/padlock-go/padlock $CLONE" && test ! -e "$CLONE" && ln -s "$TREE" "$CLONE"`
	goInstall = `test "$1 $2 $3" = "-C $CLONE install" && cd "$CLONE" && test -d "${4%/...}/padlock-all" && ln "$BUILT/padlock" "$BUILT/padlock-all" "$GOBIN"`
)

// The jobs of the page are of YAML that the services read. Their lines run with the command of the
// tree, one deployment at a time, and exit with 75 while somebody else deploys for too long.
func deployJobs(t *testing.T, command, url string) {
	bin, dir := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := server.WriteProgram(path, []byte("#!/bin/sh\n"+text)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(bin, "git"), gitClone)
	write(filepath.Join(bin, "go"), goInstall)
	tree, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(dir, "deploy.sh"), "echo begin >>notes; ls >/dev/null; echo end >>notes\n")
	run := func(j job, change *strings.Replacer) (string, error) {
		// As the services do: the script stops at the first line that fails.
		installed, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
		script := change.Replace(strings.Join(j.script, "\n"))
		cmd := exec.Command("sh", "-ec", strings.ReplaceAll(script, "/tmp/padlock", clone))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+installed+":"+os.Getenv("PATH"),
			"PADLOCK_STORE="+url, "BUILT="+command, "GOBIN="+installed, "CLONE="+clone, "TREE="+tree)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	all := jobs(t)
	if len(all) != 2 {
		t.Fatalf("the page has the jobs %v", all)
	}
	var wg sync.WaitGroup
	for name, j := range all {
		if _, ok := j.env["PADLOCK_STORE"]; !ok && name == "GitHub" {
			t.Errorf("%s: a secret of GitHub must be passed on in env", name)
		}
		for range 3 {
			wg.Go(func() {
				if out, err := run(j, strings.NewReplacer()); err != nil {
					t.Errorf("%s: %v\n%s", name, err, out)
				}
			})
		}
	}
	wg.Wait()
	if got, want := notes(t, dir), slices.Repeat([]string{"begin", "end"}, 6); !slices.Equal(got, want) {
		t.Errorf("deployments at the same time: %v", got)
	}
	lock, err := newLocker(t, url).Acquire(t.Context(), "deploy:shop")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	for name, j := range all {
		out, err := run(j, strings.NewReplacer("-w 600", "-n"))
		if fmt.Sprint(err) != "exit status 75" || !strings.Contains(out, "deploy:shop") {
			t.Errorf("%s while somebody else deploys: %v\n%s", name, err, out)
		}
	}
	if got := notes(t, dir); len(got) != 12 {
		t.Errorf("it ran: %v", got)
	}
}
