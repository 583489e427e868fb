//go:build linux

// Command command measures the command padlock: its start, compared with flock(1) and with a Go
// program that does nothing, and the memory of a run that holds a lock. It builds the commands as a
// release does, and starts Redis itself. Package bench describes the method.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// plan says how much is measured.
type plan struct {
	starts     int  // starts in one trial
	asReleased bool // the programs are built as for a release; tests share the builds of other tests
}

var bench = measure.Bench[plan]{
	Name: "command", Rounds: 21, Start: start,
	Plan: plan{20, true},
}

func main() { bench.Main() }

// The programs, by the names of their rows.
const (
	small, all = "padlock", "padlock-all"
	empty      = "a Go program that does nothing"
	flock      = "flock FILE true"
	version    = "padlock version"
	run        = "padlock run NAME -- true"
)

const emptyProgram = "package main\n\nfunc main() {}\n"

// kit is what the trials use.
type kit struct{ root, dir, redis string }

func (k *kit) file(name string) string { return filepath.Join(k.dir, name) }

func start(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
	root, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/padlock-go/padlock").Output()
	if err != nil {
		return nil, fmt.Errorf("finding padlock: %w", err)
	}
	k := &kit{root: strings.TrimSpace(string(root))}
	if k.dir, err = os.MkdirTemp("", "padlock-bench-"); err != nil {
		return nil, err
	}
	if err := r.Try(func(t testing.TB) {
		t.Cleanup(func() { _ = os.RemoveAll(k.dir) })
		k.redis = "redis://" + server.Redis(t, server.RedisOptions{Args: []string{"--appendonly", "no"}}).Addr()
	}); err != nil {
		return nil, err
	}
	if err := k.build(p.asReleased); err != nil {
		return nil, err
	}
	return []*measure.Experiment{k.starts(p), k.memory()}, nil
}

// build makes the programs. As released, they are static and without symbols.
func (k *kit) build(asReleased bool) error {
	if err := os.WriteFile(k.file("empty.go"), []byte(emptyProgram), 0o600); err != nil {
		return err
	}
	for name, source := range map[string]string{small: ".", all: "./padlock-all", "empty": k.file("empty.go")} {
		cmd := exec.Command("go", "build", "-o", k.file(name), source)
		if asReleased {
			const build = `. ../../.ci/build-flags && CGO_ENABLED=0 go build -trimpath "${build_flags[@]}" -ldflags "$link_flags" -o "$@"`
			cmd = exec.Command("bash", "-ec", build, "build", k.file(name), source)
		}
		cmd.Dir = filepath.Join(k.root, "cmd/padlock") // a module of its own
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w: %s", name, err, text)
		}
	}
	return nil
}

// starts compares programs that end at once.
func (k *kit) starts(p *plan) *measure.Experiment {
	store := "file://" + k.file("locks")
	rows := []measure.Row{
		k.started(p, flock, "flock", k.file("file"), "true"),
		k.started(p, empty, k.file("empty")),
		k.started(p, version, k.file(small), "version"),
		k.started(p, run, k.file(small), "--store", store, "run", "name", "--", "true"),
		k.started(p, run+", Redis", k.file(small), "--store", k.redis, "run", "name", "--", "true"),
		k.started(p, "padlock-all run NAME -- true", k.file(all), "--store", store, "run", "name", "--", "true"),
	}
	return &measure.Experiment{
		Name:    "a start",
		Columns: []string{"ms", "cpu ms"},
		Rows:    rows, Base: flock, Ratio: "ms",
		Targets: []measure.Target{
			{Row: run, Column: "ms", Base: flock, AtMost: 3},
			{Row: version, Column: "ms", Base: empty, AtMost: 1.5},
		},
	}
}

// started is a row with the mean time of a start, and its processor time.
func (k *kit) started(p *plan, name, program string, args ...string) measure.Row {
	return measure.Row{Name: name, Run: func() (measure.Figures, error) {
		var took, busy time.Duration
		for range p.starts {
			cmd := exec.Command(program, args...)
			begun := time.Now()
			if text, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%w: %s", err, text)
			}
			took += time.Since(begun)
			busy += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		mean := func(d time.Duration) float64 { return d.Seconds() * 1e3 / float64(p.starts) }
		return measure.Figures{"ms": mean(took), "cpu ms": mean(busy)}, nil
	}}
}

// The memory of both processes of a run. PSS counts a page that n processes share as 1/n.
func (k *kit) memory() *measure.Experiment {
	row := func(name, program, store string, others int) measure.Row {
		return measure.Row{Name: name, Run: func() (measure.Figures, error) { return k.held(k.file(program), store, others) }}
	}
	const (
		files, redis       = "padlock, files", "padlock, Redis"
		filesTen, redisTen = "padlock, files, one of ten", "padlock, Redis, one of ten"
	)
	return &measure.Experiment{
		Name:    "memory while a lock is held",
		Columns: []string{"first MB", "second MB", "MB"},
		Rows: []measure.Row{
			row(files, small, "file://"+k.file("locks"), 0), row(filesTen, small, "file://"+k.file("locks"), 9),
			row(redis, small, k.redis, 0), row(redisTen, small, k.redis, 9),
			row("padlock-all, files", all, "file://"+k.file("locks"), 0),
		},
		Base: files, Ratio: "MB", Most: 5,
		Targets: []measure.Target{
			{Row: files, Column: "MB", AtMost: 6}, {Row: filesTen, Column: "MB", AtMost: 6},
			{Row: redis, Column: "MB", AtMost: 8}, {Row: redisTen, Column: "MB", AtMost: 8},
		},
	}
}

// askMemory prints the PSS of its parent and of its parent's parent, in kB. The sleep gives the
// runs the time to become idle.
const askMemory = `sleep 1
for pid in $PPID $(sed -n 's/^PPid:\s*//p' /proc/$PPID/status); do
	sed -n 's/^Pss:\s*\([0-9]*\) kB/\1/p' /proc/$pid/smaps_rollup
done`

// held returns the memory of a run, next to other runs of the program.
func (k *kit) held(program, store string, others int) (measure.Figures, error) {
	for i := range others {
		other := exec.Command(program, "--store", store, "run", fmt.Sprint("other-", i), "--", "cat")
		input, err := other.StdinPipe()
		if err == nil {
			err = other.Start()
		}
		if err != nil {
			return nil, err
		}
		defer func() {
			input.Close() // cat ends
			other.Wait()
		}()
	}
	text, err := exec.Command(program, "--store", store, "run", "memory", "--", "sh", "-c", askMemory).Output()
	if err != nil {
		return nil, err
	}
	var second, first float64
	if _, err := fmt.Fscan(bytes.NewReader(text), &second, &first); err != nil {
		return nil, err
	}
	return measure.Figures{"first MB": first * 1024 / 1e6, "second MB": second * 1024 / 1e6, "MB": (first + second) * 1024 / 1e6}, nil
}
