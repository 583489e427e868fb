package filestore

import (
	"cmp"
	"math/rand/v2"
	"syscall"
)

// A waiter puts a mark on the file, so that others see that it waits. A mark is a lock of one byte
// far behind the file's contents (fcntl(2), F_OFD_SETLK). It has nothing to do with the lock of
// flock(2). The kernel removes it when the waiter's file is closed, so a process that is killed
// leaves none.
//
// A mark is at a random place in one of three regions: those of writers in the kernel's queue, of
// readers in that queue, and of waiters that poll.
const (
	markRegion  = 1 << 40
	writerMarks = 1 * markRegion
	readerMarks = 2 * markRegion
	pollerMarks = 3 * markRegion

	getMark = 36 // F_OFD_GETLK
	setMark = 37 // F_OFD_SETLK
)

// markQueued marks a waiter that stands in the kernel's queue. After an error it has no mark:
// others may overtake it, and do not count it.
func (c *conn) markQueued(shared bool) {
	if shared {
		c.mark(readerMarks)
	} else {
		c.mark(writerMarks)
	}
}

// markPolling marks a waiter that polls. Nobody lets it go first.
func (c *conn) markPolling() { c.mark(pollerMarks) }

func (c *conn) mark(region int64) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Start: region + rand.Int64N(markRegion), Len: 1}
	_ = syscall.FcntlFlock(uintptr(c.fd), setMark, &l)
}

func (c *conn) unmark() {
	l := syscall.Flock_t{Type: syscall.F_UNLCK, Start: writerMarks, Len: 3 * markRegion}
	_ = syscall.FcntlFlock(uintptr(c.fd), setMark, &l)
}

// othersQueue reports whether others than c stand in the kernel's queue. If onlyWriters is true,
// readers do not count.
func (c *conn) othersQueue(onlyWriters bool) bool {
	length := int64(2 * markRegion)
	if onlyWriters {
		length = markRegion
	}
	_, marked, _ := c.findMark(writerMarks, length) // after an error, the order may suffer
	return marked
}

func (c *conn) readersQueue() bool {
	_, marked, _ := c.findMark(readerMarks, markRegion) // after an error, a try may fail
	return marked
}

// countMarks returns how many others than c wait, or -1 if the kernel does not say.
func (c *conn) countMarks() int {
	n, err := c.countIn(writerMarks, 3*markRegion)
	if err != nil {
		return -1
	}
	return n
}

// countIn counts the marks in a part of the file. The kernel shows one of them. countIn then looks
// before and behind that one.
func (c *conn) countIn(start, length int64) (int, error) {
	if length <= 0 {
		return 0, nil
	}
	at, marked, err := c.findMark(start, length)
	if !marked {
		return 0, err
	}
	before, err1 := c.countIn(start, at-start)
	behind, err2 := c.countIn(at+1, start+length-at-1)
	return before + 1 + behind, cmp.Or(err1, err2)
}

func (c *conn) findMark(start, length int64) (at int64, marked bool, err error) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Start: start, Len: length}
	err = syscall.FcntlFlock(uintptr(c.fd), getMark, &l)
	if err != nil || l.Type == syscall.F_UNLCK {
		return 0, false, err
	}
	return max(l.Start, start), true, nil
}
