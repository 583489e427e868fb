package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// attributes kills the server when the test's process dies, and gives it a
// group of its own so that a terminal's Ctrl-C reaches it by way of the test
// only.
func attributes(o *owner) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if o != nil {
		attr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
	return attr
}

// stop freezes the process and all its descendants and returns once they stand
// still: from then on nobody forks, so nobody was missed.
func (p *process) stop() error {
	return until("stop", func() (int, error) {
		running := 0
		for _, pid := range tree(p.cmd.Process.Pid) {
			if still(pid) {
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

// cont wakes children before parents, so that no parent sees a child frozen.
func (p *process) cont() error {
	return signalAll(tree(p.cmd.Process.Pid), syscall.SIGCONT)
}

// kill ends the process and all its descendants at one instant, as a machine's
// crash would, and returns when all are dead. It freezes them first.
// PostgreSQL needs this: its backends are in sessions of their own, and outlive
// a killed parent for a while.
func (p *process) kill() error {
	if err := p.stop(); err != nil {
		return err
	}
	pids := tree(p.cmd.Process.Pid)
	if err := signalAll(pids, syscall.SIGKILL); err != nil {
		return err
	}
	return until("die", func() (int, error) {
		alive := 0
		for _, pid := range pids {
			if !dead(pid) {
				alive++
			}
		}
		return alive, nil
	})
}

// until asks how many processes are left to do something, till none is.
func until(what string, left func() (int, error)) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		n, err := left()
		if n == 0 || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes did not %s", n, what)
		}
		time.Sleep(time.Millisecond) // a signal takes effect when the kernel next looks
	}
}

// still tells whether a process is stopped or dead.
func still(pid int) bool {
	st, ok := readStat(pid)
	return !ok || strings.IndexByte("TtZX", st.state) >= 0
}

// dead tells whether a process has ended; it may wait for its parent's notice.
func dead(pid int) bool {
	st, ok := readStat(pid)
	return !ok || strings.IndexByte("ZX", st.state) >= 0
}

// signalAll signals the last first.
func signalAll(pids []int, sig syscall.Signal) error {
	var errs []error
	for _, pid := range slices.Backward(pids) {
		errs = append(errs, signal(pid, sig))
	}
	return errors.Join(errs...)
}

// signal takes a process that is already gone for signalled.
func signal(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// tree lists a process and its descendants, parents before children.
func tree(root int) []int {
	children := map[int][]int{}
	for _, pid := range everybody() {
		if st, ok := readStat(pid); ok {
			children[st.parent] = append(children[st.parent], pid)
		}
	}
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids
}

// everybody lists all processes.
func everybody() []int {
	entries, _ := os.ReadDir("/proc") // without it nobody is seen but the root
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat is what this package needs of /proc/PID/stat, see proc(5).
type stat struct {
	parent int
	state  byte
}

// readStat reads "pid (name) state ppid …"; the name may hold blanks and
// parentheses, so what counts stands after the last one. A process that is gone
// has none.
func readStat(pid int) (stat, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
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
