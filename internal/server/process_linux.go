package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attributes makes the kernel kill the server when the test's process dies. It also puts the server
// into a process group of its own, so that Ctrl-C at the terminal does not signal it.
func attributes(o *owner) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if o != nil {
		attr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
	return attr
}

// StopProcess stops a process and all its descendants with SIGSTOP, and returns when all of their
// threads have stopped. On a busy machine a thread may run on for some time after the signal was
// sent.
func StopProcess(t testing.TB, pid int) {
	t.Helper()
	if err := stopTree(pid); err != nil {
		t.Fatalf("stopping process %d: %v", pid, err)
	}
}

func (p *process) stop() error { return stopTree(p.cmd.Process.Pid) }

// stopTree does what StopProcess says. A stopped process cannot fork, so stopTree misses no
// descendant.
func stopTree(root int) error {
	return awaitNone("stop", func() (int, error) {
		running := 0
		for _, pid := range tree(root) {
			if doesNotRun(pid) {
				continue
			}
			running++
			if err := signal(pid, syscall.SIGSTOP); err != nil {
				return running, err
			}
		}
		return running, nil
	})
}

// cont continues children before parents, so that no parent sees a child that is stopped.
func (p *process) cont() error {
	return signalAll(tree(p.cmd.Process.Pid), syscall.SIGCONT)
}

// kill ends the process and all its descendants at the same instant, as a crash of the machine
// would. It returns when all are dead. kill stops the processes before it kills them, because
// PostgreSQL's backends are in sessions of their own and would survive their parent for a while.
func (p *process) kill() error {
	if err := p.stop(); err != nil {
		return err
	}
	pids := tree(p.cmd.Process.Pid)
	if err := signalAll(pids, syscall.SIGKILL); err != nil {
		return err
	}
	return awaitNone("die", func() (int, error) {
		alive := 0
		for _, pid := range pids {
			if !dead(pid) {
				alive++
			}
		}
		return alive, nil
	})
}

// awaitNone calls the function count until it returns 0 or an error. That function counts the
// processes that have not stopped or died yet. After a minute, awaitNone returns an error.
func awaitNone(what string, count func() (int, error)) error {
	deadline := time.Now().Add(time.Minute)
	for {
		n, err := count()
		if n == 0 || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes did not %s", n, what)
		}
		time.Sleep(time.Millisecond) // the kernel needs a moment to deliver a signal
	}
}

// doesNotRun reports whether all threads of a process are stopped or dead.
func doesNotRun(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // none if it is gone
	return !slices.ContainsFunc(files, func(file string) bool {
		st, ok := readStat(file)
		return ok && strings.IndexByte("TtZX", st.state) < 0
	})
}

// dead reports whether a process has ended, even if its parent has not reaped it.
func dead(pid int) bool {
	st, ok := readStat(statOf(pid))
	return !ok || strings.IndexByte("ZX", st.state) >= 0
}

// signalAll sends the signal to all processes, in reverse order.
func signalAll(pids []int, sig syscall.Signal) error {
	var errs []error
	for _, pid := range slices.Backward(pids) {
		errs = append(errs, signal(pid, sig))
	}
	return errors.Join(errs...)
}

// signal sends a signal to a process. It is no error if the process is already gone.
func signal(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// tree lists a process and its descendants, parents before children.
func tree(root int) []int {
	children := map[int][]int{}
	for _, pid := range allProcesses() {
		if st, ok := readStat(statOf(pid)); ok {
			children[st.parent] = append(children[st.parent], pid)
		}
	}
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids
}

// allProcesses lists all processes.
func allProcesses() []int {
	entries, _ := os.ReadDir("/proc") // without /proc, no descendant is found
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat is the part of /proc/PID/stat that this package needs, see proc(5).
type stat struct {
	parent int
	state  byte
}

func statOf(pid int) string { return fmt.Sprintf("/proc/%d/stat", pid) }

// readStat parses "pid (name) state ppid …" of a process or a thread. It returns false if that is
// gone. The name may contain blanks and parentheses, so the other fields begin after the last
// parenthesis.
func readStat(file string) (stat, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return stat{}, false
	}
	rest := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(rest) < 2 {
		return stat{}, false
	}
	parent, err := strconv.Atoi(string(rest[1]))
	return stat{parent, rest[0][0]}, err == nil
}
