package filestore

import (
	"math/rand/v2"
	"syscall"
)

// Each waiter that wants the lock puts a mark on its file, so that others see that somebody waits. A mark is a lock
// of one byte far behind the file's contents (fcntl(2), F_OFD_SETLK). It has nothing to do with the
// lock of flock(2). The kernel removes it when the waiter's file is closed, so a process that is
// killed leaves none.
//
// The mark of a waiter is at a random place in the region of writers or of readers.
const (
	markRegion  = 1 << 40
	writerMarks = 1 * markRegion
	readerMarks = 2 * markRegion

	getMark = 36 // F_OFD_GETLK
	setMark = 37 // F_OFD_SETLK
)

// newMark returns a place for the mark of a waiter.
func newMark(shared bool) int64 {
	if shared {
		return readerMarks + rand.Int64N(markRegion)
	}
	return writerMarks + rand.Int64N(markRegion)
}

// mark marks a waiter. After an error it has no mark: others may overtake it, and do not count it.
func (c *conn) mark(at int64) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Start: at, Len: 1}
	_ = syscall.FcntlFlock(uintptr(c.fd), setMark, &l)
}

func (c *conn) unmark() {
	l := syscall.Flock_t{Type: syscall.F_UNLCK, Start: writerMarks, Len: 2 * markRegion}
	_ = syscall.FcntlFlock(uintptr(c.fd), setMark, &l)
}

// othersWait reports whether others than c wait for the lock. If onlyWriters is true, readers do
// not count.
func (c *conn) othersWait(onlyWriters bool) bool {
	length := int64(2 * markRegion)
	if onlyWriters {
		length = markRegion
	}
	_, marked := c.findMark(writerMarks, length)
	return marked
}

// countMarks returns how many others than c wait.
func (c *conn) countMarks() int { return c.countIn(writerMarks, 2*markRegion) }

// countIn counts the marks in a part of the file. The kernel shows one of them. countIn then looks
// before and behind that one.
func (c *conn) countIn(start, length int64) int {
	if length <= 0 {
		return 0
	}
	at, marked := c.findMark(start, length)
	if !marked {
		return 0
	}
	return c.countIn(start, at-start) + 1 + c.countIn(at+1, start+length-at-1)
}

func (c *conn) findMark(start, length int64) (at int64, marked bool) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Start: start, Len: length}
	if err := syscall.FcntlFlock(uintptr(c.fd), getMark, &l); err != nil || l.Type == syscall.F_UNLCK {
		return 0, false
	}
	return max(l.Start, start), true
}
