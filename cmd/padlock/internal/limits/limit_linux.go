package limits

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"syscall"
)

// margin is how many threads other programs may start meanwhile.
const margin = 64

// nearLimit reports whether n more threads may be too many. That is cheap to know
// where the limit is far.
func nearLimit(n int) bool {
	const rlimitNproc = 6
	var limit syscall.Rlimit
	var info syscall.Sysinfo_t
	if syscall.Getrlimit(rlimitNproc, &limit) != nil || syscall.Sysinfo(&info) != nil {
		return true
	}
	want := uint64(n + margin)
	return limit.Cur < uint64(info.Procs)+want || !groupHas(want)
}

// groupHas reports whether the control group of this process, and those above it,
// allow for n more threads.
func groupHas(n uint64) bool {
	const root = "/sys/fs/cgroup"
	text, err := os.ReadFile("/proc/self/cgroup")
	_, group, found := bytes.Cut(text, []byte("0::/"))
	if err != nil || !found {
		return false // an older version of control groups, or none: ask the kernel
	}
	group, _, _ = bytes.Cut(group, []byte("\n"))
	for dir := path.Join(root, string(group)); ; dir = path.Dir(dir) {
		most, limited := number(dir + "/pids.max")
		now, _ := number(dir + "/pids.current")
		if limited && most < now+n {
			return false
		}
		if len(dir) <= len(root) {
			return true
		}
	}
}

func number(file string) (uint64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}

// roomForOne tries whether the kernel starts one more process. What is started is
// no program, so that it ends before it begins.
func roomForOne() bool {
	_, err := syscall.ForkExec("/", []string{"/"}, &syscall.ProcAttr{})
	return err != syscall.EAGAIN && err != syscall.ENOMEM
}
