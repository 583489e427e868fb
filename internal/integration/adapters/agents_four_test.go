package adapters

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// tree knows which agent works on which path now, as a judge.
type tree struct {
	mu     sync.Mutex
	works  map[string]string // the path of each agent that lives and works
	fences map[string]uint64 // the greatest fence of each path
	edits  int
}

func overlaps(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func (w *tree) begin(t *testing.T, agent, path string, fence uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for other, held := range w.works {
		if overlaps(held, path) {
			safety.TwoHold(t, "%s works on %s, and %s on %s", other, held, agent, path)
		}
	}
	for other, before := range w.fences {
		if overlaps(other, path) {
			safety.Rises(t, fence, before, path, other)
		}
	}
	w.works[agent], w.fences[path] = path, fence
	w.edits++
}

func (w *tree) end(agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.works, agent)
}

// fourAgents work in one checkout with the lines of the page, on random paths. A third of them dies in
// the middle of its work, without a release.
func fourAgents(t *testing.T, bin string) {
	server.Thorough(t) // TestPathsAtRandom guards the same in the first tier, on a store in memory
	dir := t.TempDir()
	git := exec.Command("git", "init", "-q")
	git.Dir = dir
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	w := &tree{works: map[string]string{}, fences: map[string]uint64{}}
	var agents sync.WaitGroup
	for i := range 4 {
		agents.Go(func() {
			live(t, w, newAgent(t, bin, dir, fmt.Sprintf("agent-%d", i)), rand.New(rand.NewPCG(73, uint64(i))))
		})
	}
	agents.Wait()
	t.Logf("%d pieces of work", w.edits)
	if w.edits < 20 {
		t.Errorf("only %d pieces of work were done", w.edits)
	}
}

func live(t *testing.T, w *tree, a *agent, r *rand.Rand) {
	for range 12 {
		path := "src"
		for range r.IntN(3) {
			path += "/" + string(rune('a'+r.IntN(2)))
		}
		lines := strings.NewReplacer("src-server", strings.ReplaceAll(path, "/", "-"), "src/server", path, "--ttl 300", "--ttl 2", "-w 60", "-w 20")
		got, exit := a.runs(t, lines.Replace(a.lines["acquire"]))
		if exit == 75 {
			continue
		}
		if exit != 0 {
			t.Errorf("acquire exits with %d: %+v", exit, got)
			return
		}
		w.begin(t, a.name, path, got.Fence)
		if r.IntN(3) == 0 {
			w.end(a.name) // it dies: nobody releases its lock
			continue
		}
		_, exit = a.runs(t, lines.Replace(a.lines["extend"]))
		w.end(a.name)
		if _, released := a.runs(t, lines.Replace(a.lines["release"])); exit != 0 || released != 0 {
			t.Errorf("extend exits with %d, release with %d", exit, released)
		}
	}
}

// runs is does for any exit status, and for an agent in a goroutine.
func (a *agent) runs(t *testing.T, line string) (last answer, exit int) {
	cmd := exec.Command("sh", "-c", a.setup+line)
	cmd.Dir, cmd.Env = a.dir, append(os.Environ(), "PATH="+a.bin+":"+os.Getenv("PATH"))
	began := time.Now()
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Error(err)
		return last, -1
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("%s takes %v", line, took)
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		if err := json.Unmarshal([]byte(text[strings.LastIndex(text, "\n")+1:]), &last); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	return last, cmd.ProcessState.ExitCode()
}
