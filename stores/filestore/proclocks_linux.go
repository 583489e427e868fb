package filestore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// hasList is true because this system has a list of its locks, /proc/locks.
const hasList = true

// calibration has the facts that are needed to find a file in /proc/locks. On most file systems,
// the kernel prints the device that stat returns. On btrfs and overlays it prints another device.
// So the store locks a probe file once, and looks for it in the list.
type calibration struct {
	patience time.Duration // see conn

	mu     sync.Mutex
	device string        // the device of the directory, as /proc/locks prints it
	size   int           // how many bytes the list had when it was last read
	at     time.Time     // when the last call of calibration.list began
	cost   time.Duration // how long the last call of calibration.list has spent reading
	narrow bool          // for tests: the list is incomplete, as in a container

	inherited map[uint64]inheritance // by inode: the processes that inherited a lock from a process that has ended
}

// tooLong is the size, in bytes, of a list of about two thousand locks. Reading such a list takes
// milliseconds. A longer list is not read all the time: if reading took 5 ms, locksOf waits 50 ms
// before it reads the list again. Until then it returns errCannotKnow.
const tooLong = 1 << 17

// locksOf returns the locks on the file of c, for an error that names the holders. If locks of
// other containers are not visible, complete is false.
func (k *calibration) locksOf(dir string, c *conn) (locks []kernelLock, complete bool, err error) {
	k.mu.Lock()
	dear := k.size > tooLong && time.Since(k.at) < 10*k.cost
	k.mu.Unlock()
	if dear {
		return nil, false, errCannotKnow
	}
	all, complete, err := k.list(dir, c.ino)
	return all[c.ino], complete, err
}

// ownLocks counts the locks that this process has on the file of c.
func (k *calibration) ownLocks(dir string, c *conn) (n int, err error) {
	all, _, err := k.list(dir, c.ino)
	for _, l := range all[c.ino] {
		if l.pid == machine().pid {
			n++
		}
	}
	return n, err
}

// list returns the locks on files of the directory, by inode. If ino is not 0, it returns only the
// locks of that inode.
//
// The kernel's list of locks is the file /proc/locks. A system call that returns the whole list
// shows all locks as they are at one moment. A longer list needs several calls. If other locks come
// or go between two calls, the list may lack a lock or show a lock twice. So a long list is read
// again, up to maxReadings times, until enough of these readings agree about the locks of each file
// (see majority).
//
// One reading is never enough to say that there is no lock: what looked like the whole list may be
// a part of it, if the list has become much shorter since.
func (k *calibration) list(dir string, ino uint64) (locks map[uint64][]kernelLock, complete bool, err error) {
	device, err := k.calibrate(dir)
	if err != nil {
		return nil, false, err
	}
	found, begun := vote{}, time.Now()
	for i := range maxReadings {
		text, whole, err := readLocks(firstSize(i))
		if err != nil {
			return nil, false, unreadableList(err)
		}
		k.mu.Lock()
		k.size, k.cost, k.at = len(text), time.Since(begun), begun
		k.mu.Unlock()
		settled := found.add(parseLocks(text, device, ino))
		if whole && i > 0 || found[ino].isCertain() || ino == 0 && i >= 2 && settled {
			break
		}
	}
	return found.locks(), machine().seesAll && !k.narrow, nil
}

const (
	// maxReadings is how many times one call of calibration.list may read a long list.
	maxReadings = 16

	// A long list is read in parts, and a lock at the border between two parts may be missing. So,
	// from the third reading on, the borders move by stride/maxReadings of a page. The step is
	// large, because the locks of one file are close together in the list.
	stride = 7

	// majority is the lead, in readings, that makes the most frequent result certain.
	majority = 3
)

// firstSize returns how large the first part of reading i is, or 0 if the kernel decides.
func firstSize(i int) int { return max(i-1, 0) * stride % maxReadings * page / maxReadings }

// vote collects what several readings of the kernel's list showed. The key is the inode of a file.
// The value has every set of locks that a reading showed for the file.
type vote map[uint64]candidates

type candidates []candidate

type candidate struct {
	locks    []kernelLock
	readings int // how many readings showed these locks
}

// add counts one more reading of the list. It returns true if no further reading is needed: every
// file in this reading was also in an earlier one, and its locks are certain (see isCertain).
func (v vote) add(text map[uint64][]kernelLock) (settled bool) {
	settled = true
	for ino, locks := range text {
		had := v[ino] != nil
		slices.SortFunc(locks, kernelLock.compare)
		v[ino] = v[ino].add(locks)
		settled = settled && had && v[ino].isCertain()
	}
	return settled
}

func (c candidates) add(locks []kernelLock) candidates {
	if c.isCertain() {
		return c
	}
	for i := range c {
		if slices.Equal(c[i].locks, locks) {
			c[i].readings++
			return c
		}
	}
	return append(c, candidate{locks, 1})
}

// mostFrequent returns the locks that most readings showed for the file. The result lead is the
// number of these readings minus that of the second most frequent result.
func (c candidates) mostFrequent() (locks []kernelLock, lead int) {
	best, second := 0, 0
	for i := range c {
		if c[i].readings > best {
			locks, best, second = c[i].locks, c[i].readings, best
		} else {
			second = max(second, c[i].readings)
		}
	}
	return locks, best - second
}

// isCertain reports whether the result of mostFrequent is certain. One reading is enough if it
// shows an exclusive lock. A file with an exclusive lock has no other lock, so the reading cannot
// have missed one.
func (c candidates) isCertain() bool {
	locks, lead := c.mostFrequent()
	return lead >= majority || len(locks) == 1 && !locks[0].shared
}

func (v vote) locks() map[uint64][]kernelLock {
	locks := make(map[uint64][]kernelLock, len(v))
	for ino, c := range v {
		locks[ino], _ = c.mostFrequent()
	}
	return locks
}

func (l kernelLock) compare(other kernelLock) int {
	if l.shared != other.shared {
		if l.shared {
			return 1
		}
		return -1
	}
	return cmp.Compare(l.pid, other.pid)
}

// page is the size of the kernel's buffer, at first. It is the most that one read returns, unless a
// single lock has more text.
const page = 4096

// readLocks reads /proc/locks with as many system calls as it needs. Each call returns a part of
// the list. The result whole is true if one call has returned everything.
//
// A part may be short although more follows: a lock and all that wait for it are one piece, which
// the kernel does not divide. So only an empty part is the end.
//
// A lock may be missing at the place where one part ends and the next one begins. If firstSize is
// not 0, the first part has at most firstSize bytes, so that the parts begin at other places.
func readLocks(firstSize int) (text []byte, whole bool, err error) {
	file, err := os.Open("/proc/locks")
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	for reads := 0; ; reads++ {
		text = slices.Grow(text, 2*page)
		end := cap(text)
		if reads == 0 && firstSize > 0 {
			end = firstSize
		}
		n, err := file.Read(text[len(text):end])
		text = text[:len(text)+n]
		if err != nil && err != io.EOF {
			return nil, false, err
		}
		if n == 0 {
			return text, reads <= 1 && firstSize == 0, nil
		}
	}
}

func unreadableList(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errNoList
	}
	return fmt.Errorf("%w: %w", errCannotKnow, err)
}

// calibrate finds out how the kernel prints the directory's device.
func (k *calibration) calibrate(dir string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.device != "" {
		return k.device, nil
	}
	probe, err := makeUnnamed(dir)
	if err != nil {
		if k.device = deviceByStat(dir); k.device != "" {
			return k.device, nil
		}
		return "", fmt.Errorf("%w: a file for trying it out cannot be made in the directory: %w", errCannotKnow, err)
	}
	c := &conn{fd: int(probe.Fd()), patience: k.patience}
	defer func() {
		if c.hung == nil { // otherwise the file is closed when nothing refers to it
			probe.Close()
		}
	}()
	var st syscall.Stat_t
	if err := errors.Join(syscall.Fstat(c.fd, &st), c.tryLock(false)); err != nil {
		return "", errors.Join(errCannotKnow, err)
	}
	for i := range maxReadings { // as in calibration.list
		text, _, err := readLocks(firstSize(i))
		if err != nil {
			return "", unreadableList(err)
		}
		if k.device = deviceOf(text, uint64(st.Ino), machine().pid); k.device != "" {
			return k.device, nil
		}
	}
	return "", fmt.Errorf("%w: /proc/locks does not show the locks of this file system", errCannotKnow)
}

// makeUnnamed makes a file without a name, so that nothing is left behind if the process is killed.
// Where the file system cannot do that, it makes a file with a name, and removes the name.
func makeUnnamed(dir string) (*os.File, error) {
	const tmpfile = 0x400000 | syscall.O_DIRECTORY // O_TMPFILE
	if f, err := os.OpenFile(dir, os.O_RDWR|tmpfile, 0o600); err == nil {
		return f, nil
	}
	f, err := os.CreateTemp(dir, ".padlock-probe-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// deviceOf returns the device of the lock that pid has on ino.
func deviceOf(text []byte, ino uint64, pid int) (device string) {
	eachLock(text, func(dev []byte, i uint64, l kernelLock) {
		if i == ino && l.pid == pid {
			device = string(dev)
		}
	})
	return device
}

func parseLocks(text []byte, device string, ino uint64) map[uint64][]kernelLock {
	locks := map[uint64][]kernelLock{}
	eachLock(text, func(dev []byte, i uint64, l kernelLock) {
		// A file has only one exclusive lock. If the text comes from several reads, a line may be
		// in it twice.
		twice := !l.shared && slices.Contains(locks[i], l)
		if string(dev) == device && (ino == 0 || i == ino) && !twice {
			locks[i] = append(locks[i], l)
		}
	})
	return locks
}

// eachLock calls visit for each line of /proc/locks that is a lock of flock(2):
//
//	1: FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF
//
// It skips lines with "->", which are processes that wait.
func eachLock(text []byte, visit func(dev []byte, ino uint64, l kernelLock)) {
	for line := range bytes.Lines(text) {
		field := bytes.Fields(line)
		if len(field) < 6 || string(field[1]) != "FLOCK" {
			continue
		}
		colon := bytes.LastIndexByte(field[5], ':')
		pid, err1 := strconv.Atoi(string(field[4]))
		ino, err2 := strconv.ParseUint(string(field[5][colon+1:]), 10, 64)
		if colon > 0 && err1 == nil && err2 == nil {
			visit(field[5][:colon], ino, kernelLock{pid: pid, shared: string(field[3]) == "READ"})
		}
	}
}

// numberedAs compares process numbers of two pid namespaces. l.pid is the number of the lock's
// process in the namespace of this process. numberedAs reports whether the lock's process has the
// given number in its own namespace, for example in its container.
func (l kernelLock) numberedAs(number uint64) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(l.pid) + "/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	numbers := strings.Fields(line)
	return len(numbers) > 0 && numbers[len(numbers)-1] == strconv.FormatUint(number, 10)
}
