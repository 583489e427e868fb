package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hasList is true: this system lists its locks.
const hasList = true

// calibration has the facts that are needed to find a file in /proc/locks. The device that the
// kernel prints there is the one that stat returns on most file systems, but not on btrfs and
// overlays. So a probe file is locked once and then looked for in the list.
type calibration struct {
	mu     sync.Mutex
	device string        // the device of the directory, as /proc/locks prints it
	size   int           // how many bytes the list had when it was last read
	cost   time.Duration // how long that reading took
	at     time.Time     // when that reading began
	narrow bool          // for tests: the list is incomplete, as in a container

	inherited map[uint64]inheritance // by inode: the holders of a lock after the process that took it has ended
}

// tooLong is the size of a list of about two thousand locks, which takes milliseconds to read. If
// the list is longer, locksOf reads it less often: reading takes at most a tenth of the time.
const tooLong = 1 << 17

// locksOf returns the locks on the file of c, for an error that names the holders. complete is
// false if locks of other containers are not visible.
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
// A single read returns the list as it is at one moment. A long list takes several reads, and a
// lock may be skipped if other locks go away between two reads. So if list looks for one inode and
// does not find it, it reads again. If it looks for all locks, it reads at least three times, until
// a read finds nothing new.
func (k *calibration) list(dir string, ino uint64) (locks map[uint64][]kernelLock, complete bool, err error) {
	device, err := k.calibrate(dir)
	if err != nil {
		return nil, false, err
	}
	locks = map[uint64][]kernelLock{}
	for i := range 6 {
		start := time.Now()
		text, reads, err := readLocks(i * page / 6)
		if err != nil {
			return nil, false, errNoList
		}
		k.mu.Lock()
		k.size, k.cost, k.at = len(text), time.Since(start), start
		k.mu.Unlock()
		missed := addLocks(locks, parseLocks(text, device, ino))
		if i == 0 && reads == 1 || ino != 0 && len(locks) > 0 || ino == 0 && i >= 2 && missed == 0 {
			break
		}
	}
	return locks, machine().sees && !k.narrow, nil
}

// addLocks copies the locks of a file from the second map to the first one, if the first one has no
// locks of that file. It returns for how many files it did so.
func addLocks(locks, more map[uint64][]kernelLock) (missed int) {
	for ino, on := range more {
		if locks[ino] == nil {
			locks[ino] = on
			missed++
		}
	}
	return missed
}

// page is how much of the list one read returns.
const page = 4096

// readLocks reads the list in parts as large as the kernel gives. A part of less than a page is the
// last one; another read might return locks that were added in the meantime. If the argument first
// is not 0, it limits the length of the first part, in bytes. A lock that is skipped between two
// parts can be found when the parts begin elsewhere.
func readLocks(first int) (text []byte, reads int, err error) {
	file, err := os.Open("/proc/locks")
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	const line = 256
	for {
		text = slices.Grow(text, 2*page)
		end := cap(text)
		if reads == 0 && first > 0 {
			end = first
		}
		n, err := file.Read(text[len(text):end])
		text = text[:len(text)+n]
		if err != nil && err != io.EOF {
			return nil, 0, err
		}
		reads++
		if n == 0 || first == 0 && n < page-line {
			return text, reads, nil
		}
	}
}

// calibrate finds out how the kernel prints the directory's device.
func (k *calibration) calibrate(dir string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.device != "" {
		return k.device, nil
	}
	probe, err := os.CreateTemp(dir, ".padlock-probe-*")
	if err != nil {
		if k.device = deviceByStat(dir); k.device != "" {
			return k.device, nil
		}
		return "", fmt.Errorf("%w: a file for trying it out cannot be made in the directory: %w", errCannotKnow, err)
	}
	defer os.Remove(probe.Name())
	defer probe.Close()
	c, err := openConn(probe.Name(), private)
	if err != nil {
		return "", errors.Join(errCannotKnow, err)
	}
	defer c.close()
	if err := c.tryLock(false); err != nil {
		return "", errors.Join(errCannotKnow, err)
	}
	for range 3 { // a long list comes in parts, and a lock may be missed if other locks come and go
		text, _, err := readLocks(0)
		if err != nil {
			return "", errNoList
		}
		if k.device = deviceOf(text, c.ino, machine().pid); k.device != "" {
			return k.device, nil
		}
	}
	return "", fmt.Errorf("%w: /proc/locks does not show the locks of this file system", errCannotKnow)
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
		if !bytes.Contains(line, []byte(" FLOCK ")) {
			continue
		}
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

// numberedAs reports whether the process that has the lock has the given number in its own pid
// namespace, which is nested in the pid namespace of this process.
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
