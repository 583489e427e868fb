package filestore

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// inheritance is a result of descriptorHolders, kept for a while.
type inheritance struct {
	pids []int
	at   time.Time
}

// inheritedFor is how long a result of descriptorHolders is reused. A new result is expensive,
// because descriptorHolders must look at every descriptor of every process.
const inheritedFor = time.Second

// descriptorHolders returns the processes that have the lock on the file of c because they
// inherited the descriptor. It is called if the process that took the lock has ended. Processes of
// other users are missing if /proc hides them.
func (k *calibration) descriptorHolders(c *conn) []int {
	k.mu.Lock()
	known, ok := k.inherited[c.ino]
	k.mu.Unlock()
	if ok && time.Since(known.at) < inheritedFor {
		return known.pids
	}
	found := inheritance{pids: processesWithLock(c), at: time.Now()}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.inherited, func(_ uint64, i inheritance) bool { return time.Since(i.at) >= inheritedFor })
	if k.inherited == nil {
		k.inherited = map[uint64]inheritance{}
	}
	k.inherited[c.ino] = found
	return found.pids
}

// processesWithLock searches the descriptors of all processes, and returns the processes that have
// the lock on the file of c.
func processesWithLock(c *conn) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		fds, _ := os.ReadDir(dir + "/fd") // other users' descriptors are hidden, except from root
		for _, fd := range fds {
			if carries(dir, fd.Name(), c) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// carries reports whether the descriptor fd of a process has the lock on the file of c. The
// argument dir is the directory of the process in /proc. A process that only waits for the lock
// also has the file open, but without the lock.
func carries(dir, fd string, c *conn) bool {
	var st syscall.Stat_t
	if err := syscall.Stat(dir+"/fd/"+fd, &st); err != nil || uint64(st.Ino) != c.ino || uint64(st.Dev) != c.dev {
		return false
	}
	info, err := os.ReadFile(dir + "/fdinfo/" + fd)
	return err == nil && bytes.Contains(info, []byte("FLOCK"))
}

// showsLock reports whether the kernel shows that this descriptor has a lock. In some sandboxes,
// the kernel shows no locks of descriptors. So a false result means something only if an earlier
// call for the same descriptor returned true.
func (c *conn) showsLock() (bool, error) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(c.fd))
	return bytes.Contains(info, []byte("FLOCK")), err
}

// ended reports whether the process that took the lock has ended. A process whose parent has not
// waited for it yet (a zombie) counts as ended.
func (l kernelLock) ended() bool {
	if syscall.Kill(l.pid, 0) == syscall.ESRCH {
		return true
	}
	_, works, err := processStart("/proc/" + strconv.Itoa(l.pid) + "/stat")
	return err == nil && !works // otherwise it works, or /proc hides it
}

// deviceByStat returns the device of dir as /proc/locks prints it. It returns "" for a file system
// on which stat and /proc/locks may report different devices. deviceByStat is used for directories
// in which no probe file can be made.
func deviceByStat(dir string) string {
	const ext, xfs, tmpfs, f2fs = 0xEF53, 0x58465342, 0x01021994, 0xF2F52010
	var fs syscall.Statfs_t
	var st syscall.Stat_t
	if syscall.Statfs(dir, &fs) != nil || syscall.Stat(dir, &st) != nil {
		return ""
	}
	switch uint32(fs.Type) {
	case ext, xfs, tmpfs, f2fs:
		dev := uint64(st.Dev)
		major := dev>>8&0xfff | dev>>32&^0xfff
		minor := dev&0xff | dev>>12&^0xff
		return fmt.Sprintf("%02x:%02x", major, uint32(minor))
	}
	return ""
}
