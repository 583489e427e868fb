package limits

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"syscall"
)

// room reports whether this process may start n more threads.
func room(n int) bool { return userHas(uint64(n)) && groupHas(uint64(n)) }

// userHas reports whether the user of this process may have n more threads.
func userHas(n uint64) bool {
	const rlimitNproc = 6
	var limit syscall.Rlimit
	var info syscall.Sysinfo_t
	switch {
	case os.Getuid() == 0: // root has no limit
		return true
	case syscall.Getrlimit(rlimitNproc, &limit) != nil || syscall.Sysinfo(&info) != nil:
		return true
	case limit.Cur >= uint64(info.Procs)+n: // the limit is high enough even if all threads of the machine belong to this user
		return true
	}
	return limit.Cur >= userThreads()+n
}

// userThreads returns the number of threads of this process's user.
func userThreads() (sum uint64) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	uid := strconv.Itoa(os.Getuid())
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		status, err := os.ReadFile("/proc/" + name + "/status")
		if err != nil || string(field(status, "Uid:")) != uid {
			continue
		}
		n, _ := strconv.ParseUint(string(field(status, "Threads:")), 10, 64)
		sum += n
	}
	return sum
}

// field finds the line that begins with the given name, and returns the first word after the name.
func field(text []byte, name string) []byte {
	_, rest, _ := bytes.Cut(text, []byte("\n"+name))
	if words := bytes.Fields(rest[:min(len(rest), 40)]); len(words) > 0 {
		return words[0]
	}
	return nil
}

// groupHas reports whether the control group of this process, and those above it,
// may have n more threads.
func groupHas(n uint64) bool {
	const root = "/sys/fs/cgroup"
	text, _ := os.ReadFile("/proc/self/cgroup")
	_, group, found := bytes.Cut(text, []byte("0::/"))
	if !found {
		return true // cgroups v1, or no cgroups
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

// number returns the number that a file contains. It returns false if the file contains something
// else, such as the word max.
func number(file string) (uint64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}
