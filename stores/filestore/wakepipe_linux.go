package filestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A wakePipe is a named FIFO through which other processes wake the waiters of one store. It is in
// the directory "waiters", next to the lock files. The store keeps it open while a waiter has a
// ticket, and for pipeIdle after that. To wake a waiter, a process opens the FIFO for writing and
// writes the ticket. If the store's process is dead, the kernel refuses to open the FIFO (ENXIO).
// Then the FIFO is removed.
//
//	state   what happens                            next state
//	none    a waiter of the store takes a ticket    open
//	open    no waiter has had a ticket for          none; the file is removed
//	        pipeIdle, or the store is closed
//	open    the process dies                        dead; the file stays
//	dead    another process wants to wake a waiter  none; the file is removed if its owner and
//	        of the pipe, or makes its own pipe      the directory allow it
type wakePipe struct {
	mu      sync.Mutex
	id      uint64 // 0 if no pipe is open
	file    *os.File
	waiters map[wakeKey]*waiter
	stop    func() bool // stops the timer that closes the pipe
	closed  bool
	running sync.WaitGroup
}

// wakeKey identifies a ticket.
type wakeKey struct{ ino, number uint64 }

const (
	waitersDir   = "waiters"
	newPipe      = "new-" // a new FIFO has this prefix in its name until its owner has opened it
	newPipeGrace = time.Minute
	wakeSize     = 16
	pipeIdle     = time.Second
	sweepMax     = 16 // how many FIFOs are checked when a new one is made
)

func pipeName(id uint64) string { return fmt.Sprintf("%010x", id) }

// openPipe makes the FIFO if there is none, and returns its number.
func (p *wakePipe) openPipe(s *Store) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return 0, os.ErrClosed
	case p.id != 0:
		p.keepOpen()
		return p.id, nil
	}
	id, file, err := s.makePipe()
	if err != nil {
		return 0, err
	}
	p.id, p.file = id, file
	if p.waiters == nil {
		p.waiters = map[wakeKey]*waiter{}
	}
	p.running.Go(func() { p.wakeFromPipe(file) })
	p.keepOpen()
	return id, nil
}

// keepOpen keeps the pipe open for at least the time pipeIdle. After that time, a timer closes the
// pipe if no waiter has a ticket. The caller holds mu.
func (p *wakePipe) keepOpen() {
	if p.stop != nil {
		p.stop()
	}
	id := p.id
	p.stop = time.AfterFunc(pipeIdle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.id == id && len(p.waiters) == 0 {
			p.closePipe()
		}
	}).Stop
}

// closePipe closes and removes the FIFO. The caller holds mu.
func (p *wakePipe) closePipe() {
	if p.id == 0 {
		return
	}
	_ = syscall.Unlink(p.file.Name())
	_ = syscall.Rmdir(filepath.Dir(p.file.Name())) // fails while another process has a FIFO there
	_ = p.file.Close()
	p.id, p.file = 0, nil
}

func (p *wakePipe) close() {
	p.mu.Lock()
	p.closed = true
	if p.stop != nil {
		p.stop()
	}
	p.closePipe()
	p.mu.Unlock()
	p.running.Wait()
}

// isLost reports whether the store has no pipe that other processes can open. If the file of the
// pipe was removed, isLost also closes the pipe.
func (p *wakePipe) isLost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id == 0 {
		return true
	}
	if _, err := os.Lstat(p.file.Name()); !errors.Is(err, os.ErrNotExist) {
		return false
	}
	p.closePipe()
	return true
}

// hasNumber reports whether id is the number of the open pipe.
func (p *wakePipe) hasNumber(id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id == id
}

// add records that a wake-up for the ticket t is meant for w.
func (p *wakePipe) add(t ticket, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters[wakeKey{t.queue.ino, t.number}] = w
}

func (p *wakePipe) remove(t ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, wakeKey{t.queue.ino, t.number})
	if len(p.waiters) == 0 && p.id != 0 {
		p.keepOpen()
	}
}

// wakeOwn reports whether id is the number of this store's own pipe. If it is this store's pipe and
// the argument wake is true, wakeOwn also wakes the waiter that key identifies.
func (p *wakePipe) wakeOwn(id uint64, key wakeKey, wake bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id != id {
		return false
	}
	if w := p.waiters[key]; w != nil && wake {
		w.tell()
	}
	return true
}

// wakeFromPipe wakes the waiters whose tickets are written into the pipe. If part of a ticket is
// missing, it wakes all waiters.
func (p *wakePipe) wakeFromPipe(file *os.File) {
	buf := make([]byte, 64*wakeSize)
	for {
		n, err := file.Read(buf)
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		for b := buf[:n]; len(b) >= wakeSize; b = b[wakeSize:] {
			key := wakeKey{binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:])}
			if w := p.waiters[key]; w != nil {
				w.tell()
			}
		}
		if n%wakeSize != 0 {
			for _, w := range p.waiters {
				w.tell()
			}
		}
		p.mu.Unlock()
	}
}

// makePipe makes a FIFO. If another process removes the directory in the meantime, makePipe tries
// again.
func (s *Store) makePipe() (id uint64, file *os.File, err error) {
	dir := filepath.Join(s.dir, waitersDir)
	for range 100 {
		var at *os.File
		if at, err = s.openWaitersDir(dir); err == nil {
			s.sweep(at)
			id, file, err = s.makePipeIn(at)
			at.Close()
		}
		if err != syscall.ENOENT {
			break
		}
	}
	return id, file, err
}

// makePipeIn makes a FIFO with a temporary name, opens it, and then renames it. So a FIFO that has
// its final name belongs to a dead process if no process has the FIFO open.
func (s *Store) makePipeIn(dir *os.File) (uint64, *os.File, error) {
	id := 1 + rand.Uint64N(pipeMask)
	name, temporary := pipeName(id), newPipe+pipeName(id)
	at := int(dir.Fd())
	if err := syscall.Mknodat(at, temporary, syscall.S_IFIFO|0o600, 0); err != nil {
		return 0, nil, err
	}
	fd, err := syscall.Openat(at, temporary, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
	if err == nil {
		// Other processes may only write. If they could read, they could take wake-ups away from
		// this process.
		perm := [...]uint32{private: 0o600, group: 0o620, world: 0o622}[s.config.access]
		if err = syscall.Fchmod(fd, perm); err == nil {
			err = syscall.Renameat(at, temporary, at, name)
		}
		if err != nil {
			syscall.Close(fd)
		}
	}
	if err != nil {
		_ = syscall.Unlinkat(at, temporary)
		return 0, nil, err
	}
	return id, os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
}

// openWaitersDir opens the directory for FIFOs, and makes it if it does not exist.
func (s *Store) openWaitersDir(dir string) (*os.File, error) {
	const flags = syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	fd, err := openFile(dir, flags, 0)
	if tooMany(err) {
		s.evictAll()
		fd, err = openFile(dir, flags, 0)
	}
	if err == syscall.ENOENT {
		if err := os.Mkdir(dir, 0o700); err == nil {
			perm := [...]os.FileMode{private: 0o700, group: 0o770 | os.ModeSetgid, world: 0o777 | os.ModeSticky}[s.config.access]
			_ = os.Chmod(dir, perm)
		} else if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		fd, err = openFile(dir, flags, 0)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// sweep checks a few FIFOs and removes the ones of dead processes.
func (s *Store) sweep(dir *os.File) {
	entries, err := dir.ReadDir(sweepMax)
	if err != nil && err != io.EOF {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir.Name(), e.Name())
		switch {
		case e.Type() != os.ModeNamedPipe:
		case !strings.HasPrefix(e.Name(), newPipe):
			if fd, err := openPipe(path); err == nil {
				syscall.Close(fd)
			} else if err == syscall.ENXIO {
				_ = syscall.Unlink(path)
			}
		default:
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > newPipeGrace {
				_ = syscall.Unlink(path)
			}
		}
	}
}

func openPipe(path string) (int, error) {
	return openFile(path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
}

// reached is the result of an attempt to wake the waiter of a ticket.
type reached int

const (
	reachedLiving  reached = iota // the waiter's process is alive; a wake-up that was sent will reach it
	reachedDead                   // the waiter's process is dead
	reachedUnknown                // no wake-up could be sent; the waiter looks at the lock now and then
)

// reachWaiter finds out whether the waiter of a ticket is alive. If wake is true, it also wakes the
// waiter.
func (s *Store) reachWaiter(q *ticketQueue, number uint64, word ticketWord, wake bool) reached {
	if s.order.pipe.wakeOwn(word.pipe(), wakeKey{q.ino, number}, wake) {
		return reachedLiving
	}
	path := filepath.Join(s.dir, waitersDir, pipeName(word.pipe()))
	fd, err := openPipe(path)
	if tooMany(err) {
		s.evictAll()
		fd, err = openPipe(path)
	}
	switch err {
	case nil:
	case syscall.ENXIO:
		_ = syscall.Unlink(path)
		return reachedDead
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP:
		return reachedDead
	default:
		return reachedUnknown
	}
	defer syscall.Close(fd)
	if !wake {
		return reachedLiving
	}
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return reachedUnknown
	}
	var b [wakeSize]byte
	binary.NativeEndian.PutUint64(b[:], q.ino)
	binary.NativeEndian.PutUint64(b[8:], number)
	switch _, err := syscall.Write(fd, b[:]); err {
	case nil, syscall.EAGAIN: // EAGAIN: the pipe is full; when the process runs, it wakes all its waiters
		return reachedLiving
	case syscall.EPIPE:
		return reachedDead
	}
	return reachedUnknown
}
