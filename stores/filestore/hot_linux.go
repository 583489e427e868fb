package filestore

import (
	"runtime/debug"
	"syscall"
)

// hotPage is the first page of a file that is used often, mapped into memory. The kernel keeps the
// mapping equal to the file. The store uses the mapping instead of system calls that read or write
// the page, because one such system call takes about as long as the rest of Acquire.
//
// If another program cuts the file short, access to the mapped page causes a memory fault. Normally
// a memory fault ends the program, but SetPanicOnFault turns the fault into a panic. touchPage then
// returns false, and its caller uses an ordinary read or write.
type hotPage struct {
	uses int
	page []byte // nil if not mapped
}

const (
	hotUses  = 8 // mapping costs about as much as eight reads
	pageSize = 4096
)

// readHead reads the head record and what follows it into b. It returns how many bytes it has read.
// It does not end at c.size, because another process may have written a longer record since. Beyond
// the end of the file, the page has zeros.
func (c *conn) readHead(b []byte) int {
	if c.page == nil {
		c.warm()
	} else if n := min(len(b), pageSize); touchPage(b[:n], c.page) {
		return n
	}
	n, _ := c.pread(b, 0)
	return n
}

// writeHead writes the head record. It uses the mapped page only if the record does not reach
// beyond the end of the file, because bytes after the end would be lost.
func (c *conn) writeHead(b []byte) error {
	if c.page != nil && int64(len(b)) <= c.size && touchPage(c.page, b) {
		return nil
	}
	err := c.pwrite(b, 0)
	if err == nil {
		c.size = max(c.size, int64(len(b)))
	}
	return err
}

// touchPage copies from src to dst. It returns false if the file has become too short, or the
// system cannot provide the page.
func touchPage(dst, src []byte) (ok bool) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if !ok {
			_ = recover()
		}
	}()
	copy(dst, src)
	return true
}

// warm maps the page once the file has been used often enough. If the page cannot be mapped, the
// store goes on with ordinary reads and writes.
func (c *conn) warm() {
	c.uses++
	if c.uses != hotUses || !c.local || c.size <= 0 {
		return
	}
	if page, err := syscall.Mmap(c.fd, 0, pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err == nil {
		c.page = page
	}
}

func (c *conn) unmap() {
	if c.page != nil {
		_ = syscall.Munmap(c.page)
		c.page = nil
	}
}
