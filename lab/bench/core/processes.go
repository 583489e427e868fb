//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/filestore"
)

// If the environment variable waiterEnv is set, this program is a waiting process.
const waiterEnv = "PADLOCK_BENCH_WAITER"

// waiterKinds are the kinds of waiting processes, by the value of waiterEnv.
var waiterKinds = map[string]waiterKind{
	"flock": {waitInFlock, crowdInFlock},
	"file":  {waitInFileStore, crowdInFileStore},
}

type waiterKind struct {
	// wait reports that it is ready, and takes the lock in dir. Then it releases the lock and
	// reports that it is done.
	wait func(dir string, say func(string)) error

	// crowd takes the lock in dir and returns two functions. The first function returns when n
	// other processes wait for the lock. The second one releases the lock.
	crowd func(dir string) (ready func(n int) error, release func() error, err error)
}

// processes starts many processes that wait for one lock in a file. It measures the time from the
// first release to the last.
func processes(p *plan) *measure.Experiment {
	e := &measure.Experiment{
		Name:    "file, waiting processes",
		Columns: []measure.Column{{Name: "µs/hand-over", Format: "%.1f"}},
		Ratio:   "µs/hand-over",
	}
	name := func(kind string, n int) string {
		return fmt.Sprintf("%s, %d", map[string]string{"flock": "blocking flock(2)", "file": "padlock over filestore"}[kind], n)
	}
	for _, n := range p.processes {
		for _, kind := range []string{"flock", "file"} {
			e.Rows = append(e.Rows, measure.Row{Name: name(kind, n), Run: p.inDir(func(dir string, _ time.Duration) (measure.Figures, error) {
				took, err := drainProcesses(dir, kind, n)
				return measure.Figures{"µs/hand-over": float64(took.Nanoseconds()) / 1e3 / float64(n)}, err
			})})
		}
	}
	few, many := p.processes[0], p.processes[len(p.processes)-1]
	e.Base = name("flock", many)
	e.Targets = []measure.Target{
		{Row: name("file", many), Column: "µs/hand-over", Base: name("flock", many), AtMost: 3},
		{Row: name("file", many), Column: "µs/hand-over", Base: name("file", few), AtMost: 1.5},
	}
	return e
}

// drainProcesses returns the time in which n processes got and released the lock, one after the
// other.
func drainProcesses(dir, kind string, n int) (took time.Duration, err error) {
	ready, release, err := waiterKinds[kind].crowd(dir)
	if err != nil {
		return 0, err
	}
	said, says, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, release())
	}
	defer said.Close()
	stay, leave, err := os.Pipe() // when this pipe is closed, the processes end
	if err != nil {
		return 0, errors.Join(err, release())
	}
	var started []*exec.Cmd
	defer func() {
		leave.Close()
		for _, cmd := range started {
			err = errors.Join(err, cmd.Wait())
		}
	}()
	for range n {
		cmd := exec.Command("/proc/self/exe", dir)
		cmd.Env = append(os.Environ(), waiterEnv+"="+kind)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stay, says, os.Stderr
		if err := cmd.Start(); err != nil {
			return 0, errors.Join(err, release())
		}
		started = append(started, cmd)
	}
	stay.Close()
	says.Close()
	lines := bufio.NewReader(said)
	if err := errors.Join(expect(lines, "ready", n), ready(n)); err != nil {
		return 0, errors.Join(err, release())
	}
	time.Sleep(100 * time.Millisecond) // until all are asleep
	start := time.Now()
	if err := errors.Join(release(), expect(lines, "done", n)); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// expect reads n lines.
func expect(lines *bufio.Reader, what string, n int) error {
	for range n {
		if line, err := lines.ReadString('\n'); err != nil || line != what+"\n" {
			return fmt.Errorf("a waiting process said %q, not %s: %w", line, what, err)
		}
	}
	return nil
}

// beWaiter is the main function of a waiting process.
func beWaiter(kind, dir string) error {
	err := waiterKinds[kind].wait(dir, func(what string) { _, _ = os.Stdout.WriteString(what + "\n") })
	awaitEOF()
	return err
}

// awaitEOF returns when stdin ends. The parent closes it when all processes are done.
func awaitEOF() { _, _ = io.Copy(io.Discard, os.Stdin) }

func waitInFlock(dir string, say func(string)) error {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	fd := int(f.Fd())
	say("ready")
	if err := syscall.Flock(fd, syscall.LOCK_EX); err != nil {
		return err
	}
	err = syscall.Flock(fd, syscall.LOCK_UN)
	say("done")
	return err
}

func crowdInFlock(dir string) (ready func(int) error, release func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	fd := int(f.Fd())
	if err := syscall.Flock(fd, syscall.LOCK_EX); err != nil {
		return nil, nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, nil, err
	}
	inode := []byte(":" + strconv.FormatUint(st.Ino, 10) + " ")
	return func(n int) error {
		return poll(func() (bool, error) {
			text, err := os.ReadFile("/proc/locks")
			waiting := 0
			for line := range bytes.Lines(text) {
				if bytes.Contains(line, []byte("->")) && bytes.Contains(line, inode) {
					waiting++
				}
			}
			return waiting >= n, err
		})
	}, f.Close, nil
}

const queueName = "nightly-report"

func waitInFileStore(dir string, say func(string)) error {
	store, err := filestore.Open(dir)
	if err != nil {
		return err
	}
	l := padlock.New(store)
	say("ready")
	lock, err := l.Acquire(context.Background(), queueName)
	if err != nil {
		return err
	}
	err = lock.Release()
	say("done")
	awaitEOF() // so that closing the Locker is no part of the measured time
	return errors.Join(err, l.Close(context.Background()))
}

func crowdInFileStore(dir string) (ready func(int) error, release func() error, err error) {
	store, err := filestore.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	l := padlock.New(store)
	lock, err := l.Acquire(context.Background(), queueName)
	if err != nil {
		return nil, nil, err
	}
	return func(n int) error {
		return poll(func() (bool, error) {
			state, err := store.Inspect(context.Background(), queueName)
			return state.Waiters >= n, err
		})
	}, func() error { return lock.Release() }, nil
}

// poll repeats a check until it succeeds. After a minute, poll returns an error.
func poll(done func() (bool, error)) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		ok, err := done()
		switch {
		case ok:
			return nil
		case time.Now().After(deadline):
			return errors.Join(errors.New("not all processes wait after a minute"), err)
		}
	}
}
