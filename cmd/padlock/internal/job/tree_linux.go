package job

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// adopt makes this process the parent of processes that the command leaves behind. It also records
// the children that this process already has, because they do not belong to the job. This process
// has such children if a shell started them and then replaced itself by padlock with exec.
func (j *Job) adopt() {
	const setChildSubreaper = 36
	if j.leave {
		return
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	j.adopts, j.refused = errno == 0, errno != 0
	j.before = map[int]bool{}
	if childless() {
		return
	}
	for pid, p := range processes() {
		if p.parent == os.Getpid() {
			j.before[pid] = true
		}
	}
}

// dieWithUs makes the kernel kill the command when this process is killed.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// reap waits for a child of this process that has ended or was stopped. While it reaps a child, no
// other goroutine sends a signal to the command, because another process may get the command's
// number as soon as the command is reaped.
func (j *Job) reap(whom int) (pid int, status syscall.WaitStatus, err error) {
	switch err := awaitChild(whom); err {
	case nil:
	case syscall.EINTR, syscall.ECHILD:
		return 0, 0, err
	default: // a filter for system calls refuses waitid
		time.Sleep(10 * time.Millisecond)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	pid, err = syscall.Wait4(whom, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
	j.reaped = j.reaped || j.isFinal(pid, status)
	return pid, status, err
}

// awaitChild waits until a child has ended or was stopped, and does not reap it.
func awaitChild(whom int) error {
	const (
		all, one       = 0, 1 // P_ALL, P_PID
		exited, nowait = 0x4, 0x1000000
	)
	kind := one
	if whom < 0 {
		kind, whom = all, 0
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, uintptr(kind), uintptr(whom), 0, exited|syscall.WUNTRACED|nowait, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// childless reports whether this process has no child, living or dead. Then it has no descendants
// either, because it adopts orphans. Without this check, each call of Rest would read the table of
// processes, which is slow on a machine with many processes.
func childless() bool {
	const all, exited, nowait, wall = 0, 0x4, 0x1000000, 0x40000000
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, all, 0, 0, exited|nowait|wall|syscall.WNOHANG, 0, 0)
	return errno == syscall.ECHILD
}

// Rest lists the living processes of the tree. These are the descendants of this process. If Leave
// is set, they are only the descendants of the command. Before Started, the process that shall become
// the command is one of them.
func (j *Job) Rest() []int {
	if !j.leave && childless() {
		return nil
	}
	children := map[int][]int{}
	all := processes()
	if len(all) == 0 {
		return j.groupRest() // /proc is not available
	}
	for pid, p := range all {
		children[p.parent] = append(children[p.parent], pid)
	}
	root := os.Getpid()
	switch {
	case j.leave && j.taken:
		return j.groupRest() // the parent of the command's children has died
	case j.leave && j.Group() != 0:
		root = j.Group()
	}
	var rest []int
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, pid := range children[next[0]] {
			if j.before[pid] {
				continue
			}
			next = append(next, pid)
			if !all[pid].dead {
				rest = append(rest, pid)
			}
		}
	}
	return rest
}

// Duplicate duplicates a descriptor. It avoids low numbers, because scripts use them for files of
// their own and would close the duplicate.
func Duplicate(fd int) (int, error) {
	high, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD, 100)
	if errno != 0 {
		return syscall.Dup(fd) // if ulimit -n is very low
	}
	return int(high), nil
}

type process struct {
	parent int
	dead   bool // ended, and not yet reaped by its parent
}

// processes reads the table of processes. Processes that end meanwhile are left out.
func processes() map[int]process {
	all := map[int]process{}
	dir, err := os.Open("/proc")
	if err != nil {
		return all
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(name); ok {
			all[pid] = p
		}
	}
	return all
}

// readProcess parses "pid (name) state parent …". A name may contain anything, even parentheses.
func readProcess(pid string) (process, bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 18 {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	dead := fields[0][0] == 'Z' || fields[0][0] == 'X'
	return process{parent, dead && string(fields[17]) == "1"}, err == nil // only the first of its threads may have ended
}

// Name returns the name under which the system lists a process.
func Name(pid int) string {
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return "?"
	}
	return string(bytes.TrimSpace(comm))
}

// SetName sets the name under which the system lists this process. Without SetName, the system
// lists a process as "exe" if the process was started as /proc/self/exe.
func SetName(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }
