package filestore

import (
	"bytes"
	"cmp"
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

// hasList is true because this system has a list of its locks, /proc/locks.
const hasList = true

// calibration has the facts that are needed to find a file in /proc/locks. The device that the
// kernel prints there is the one that stat returns on most file systems, but not on btrfs and
// overlays. So a probe file is locked once and then looked for in the list.
type calibration struct {
	mu     sync.Mutex
	device string        // the device of the directory, as /proc/locks prints it
	size   int           // how many bytes the list had when it was last read
	at     time.Time     // when the last call of calibration.list began
	cost   time.Duration // how long the last call of calibration.list has spent reading
	narrow bool          // for tests: the list is incomplete, as in a container

	inherited map[uint64]inheritance // by inode: the processes that inherited a lock from a process that has ended
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
// A single read returns the list as it is at one moment. A list longer than a page takes several
// reads. If other locks come or go between two reads, a lock may be missing from the text, or its
// line may be there twice. So list reads such a list again, up to maxTexts times, until enough
// texts agree about the locks of each file.
func (k *calibration) list(dir string, ino uint64) (locks map[uint64][]kernelLock, complete bool, err error) {
	device, err := k.calibrate(dir)
	if err != nil {
		return nil, false, err
	}
	found, begun := vote{}, time.Now()
	for i := range maxTexts {
		text, reads, err := readLocks(i * stride % maxTexts * page / maxTexts)
		if err != nil {
			return nil, false, errNoList
		}
		k.mu.Lock()
		k.size, k.cost, k.at = len(text), time.Since(begun), begun
		k.mu.Unlock()
		settled := found.add(parseLocks(text, device, ino))
		if i == 0 && reads == 1 || found[ino].isCertain() || ino == 0 && i >= 2 && settled {
			break
		}
	}
	return found.winners(), machine().sees && !k.narrow, nil
}

const (
	// maxTexts is how many times a long list is read at most. Each reading is one text.
	maxTexts = 16

	// stride says where the parts of a text begin: from one text to the next, they move by
	// stride/maxTexts of a page. They move that far because the locks of one file are close
	// together in the list.
	stride = 7

	// majority is how many more texts must show a set of locks than any other set. Then these locks
	// are certain.
	majority = 3
)

// vote finds out which locks each file has, although two texts of the kernel's list may differ. For
// each file, by its inode, it has the sets of locks that the texts show.
type vote map[uint64]candidates

type candidates []candidate

type candidate struct {
	locks []kernelLock
	texts int // how many texts say that the file has these locks
}

// add counts a further text. It reports whether the vote is settled: each file in this text was
// also in an earlier text, and its locks are certain (see isCertain).
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
			c[i].texts++
			return c
		}
	}
	return append(c, candidate{locks, 1})
}

// winner returns the set of locks that the most texts show for the file. ahead is how many more
// texts show this set than the set in second place.
func (c candidates) winner() (locks []kernelLock, ahead int) {
	best, second := 0, 0
	for i := range c {
		if c[i].texts > best {
			locks, best, second = c[i].locks, c[i].texts, best
		} else {
			second = max(second, c[i].texts)
		}
	}
	return locks, best - second
}

// isCertain reports whether the winner is certain. If the winner is one exclusive lock, one text is
// enough. A file with an exclusive lock has no other lock that the text could lack or show twice.
func (c candidates) isCertain() bool {
	locks, ahead := c.winner()
	return ahead >= majority || len(locks) == 1 && !locks[0].shared
}

func (v vote) winners() map[uint64][]kernelLock {
	locks := make(map[uint64][]kernelLock, len(v))
	for ino, c := range v {
		locks[ino], _ = c.winner()
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

// page is how much of the list one read returns.
const page = 4096

// readLocks reads the list in parts, each as large as the kernel gives. A part of less than a page
// is the last part, so readLocks stops there: a further read might return locks that were added in
// the meantime.
//
// If the argument first is not 0, it limits the length of the first part, in bytes, and readLocks
// stops only at the end of the list. A list in parts can lack a lock at the place where one part
// ends and the next part begins. Another value of first moves these places.
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

// numberedAs reports whether the process that took the lock has the given number in its own pid
// namespace. That pid namespace is inside the pid namespace of this process, where the process has
// the number l.pid.
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
