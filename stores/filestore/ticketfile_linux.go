package filestore

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// openQueue maps the queue of the file that c has open.
func openQueue(c *conn) (*ticketQueue, error) {
	mem, err := syscall.Mmap(c.fd, 0, ticketEnd, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	q := &ticketQueue{dev: c.dev, ino: c.ino, mem: mem}
	q.refs.Store(1)
	return q, nil
}

// liesIn reports whether the queue lies in the file that c has open.
func (q *ticketQueue) liesIn(c *conn) bool { return q.ino == c.ino && q.dev == c.dev }

func (q *ticketQueue) retain() *ticketQueue {
	q.refs.Add(1)
	return q
}

func (q *ticketQueue) drop() {
	if q != nil && q.refs.Add(-1) == 0 {
		_ = syscall.Munmap(q.mem)
	}
}

// roomForHeader makes the file long enough for the header of the queue, and allocates disk space
// for the header. If the mapped page had no disk space, a write to it would cause a memory fault.
func (q *ticketQueue) roomForHeader(c *conn) error { return q.roomAt(c, 0) }

// roomFor makes the file long enough for the word of a ticket, and allocates disk space for that
// word.
func (q *ticketQueue) roomFor(c *conn, number uint64) error {
	return q.roomAt(c, ticketOffset+8*int64(number%ticketRoom))
}

func (q *ticketQueue) roomAt(c *conn, offset int64) error {
	const pageSize = 4096
	page := offset / pageSize
	if q.allocated.Load()&(1<<page) != 0 {
		return nil
	}
	err := allocate(c.fd, page*pageSize, pageSize)
	if err == nil {
		q.allocated.Or(1 << page)
	}
	return err
}

// allocate allocates disk space for part of the file. It never shortens the file, and never changes
// bytes in it.
func allocate(fd int, offset, size int64) error {
	for {
		err := syscall.Fallocate(fd, 0, offset, size)
		switch {
		case err == syscall.EINTR:
		case errors.Is(err, errors.ErrUnsupported): // on a full disk, a write may cause a memory fault, which guard catches
			return lengthen(fd, offset+size)
		default:
			return err
		}
	}
}

func lengthen(fd int, size int64) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil || st.Size >= size {
		return err
	}
	return syscall.Ftruncate(fd, size)
}

// queueHeader returns the header of the queue. The argument start has the first bytes of the file
// if the caller has just read them, and otherwise is nil.
func (c *conn) queueHeader(start []byte) (h queueHeader) {
	var b [queueSize]byte
	switch {
	case len(start) >= queueOffset+queueSize:
		copy(b[:], start[queueOffset:])
	case start == nil:
		if n, _ := c.pread(b[:], queueOffset); n < queueSize {
			return h
		}
	}
	return queueHeader{
		binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:]),
		binary.NativeEndian.Uint64(b[16:]), binary.NativeEndian.Uint64(b[24:]),
	}
}

// readTickets counts the waiting tickets whose processes are alive. It reads the file, and does not
// map the queue. It returns -1 if this build cannot read the tickets. For each process it calls
// isAlive once, with one ticket of that process.
func (c *conn) readTickets(isAlive func(number uint64, word ticketWord) bool) (count int) {
	h := c.queueHeader(nil)
	switch {
	case h.isNewer():
		return -1
	case h.empty() || h.next-h.head > ticketRoom:
		return 0
	}
	words := make([]byte, 8*ticketRoom)
	n, _ := c.pread(words, ticketOffset)
	known := map[uint64]bool{}
	for number := h.head; number < h.next; number++ {
		i := 8 * int(number%ticketRoom)
		if i+8 > n {
			continue
		}
		word := ticketWord(binary.NativeEndian.Uint64(words[i:]))
		if !word.waits(number) {
			continue
		}
		lives, asked := known[word.pipe()]
		if !asked {
			lives = isAlive(number, word)
			known[word.pipe()] = lives
		}
		if lives {
			count++
		}
	}
	return count
}

// queueOf returns the mapped queue of the file that c has open.
func (f *file) queueOf(c *conn) (*ticketQueue, error) {
	if q := f.tickets; q != nil && q.liesIn(c) {
		return q, nil
	}
	q, err := openQueue(c)
	if err != nil {
		return nil, err
	}
	f.dropQueue()
	f.tickets = q
	return q, nil
}

func (f *file) dropQueue() {
	f.tickets.drop()
	f.tickets = nil
}
