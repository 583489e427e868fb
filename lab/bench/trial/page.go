//go:build linux

package trial

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/padlock-go/padlock/driver"
)

// MaxParties is the largest number of workers or processes in one trial.
const MaxParties = 512

// A Page is memory that all workers of a trial share, within one process or mapped into several.
// The owner of the lock writes its number into the page. So a second owner is noticed at once. The
// times in the page are results of now().
type Page struct {
	Hold       time.Duration // how long a worker keeps the lock
	start, end atomic.Int64  // the beginning and the end of the time that counts
	over       atomic.Int64  // after this time no worker waits any more
	_          [32]byte      // the next fields change at every hand-over, so they get a cache line of their own

	owner      atomic.Int32 // current owner of the lock; 0 if there is none
	last       atomic.Int32 // previous owner
	released   atomic.Int64 // time just before the last unlock
	violations atomic.Int64 // number of times that there were two owners
	served     atomic.Int64 // number of processes that have had the lock once
	_          [32]byte

	Sent [MaxParties]Counter // the number of commands that each process has sent
}

// Counter fills a cache line of its own.
type Counter struct {
	atomic.Int64
	_ [56]byte
}

// Span sets the times of a trial, which begins after head.
func (p *Page) Span(head, length, grace time.Duration) {
	start := now() + int64(head)
	p.start.Store(start)
	p.end.Store(start + int64(length))
	p.over.Store(start + int64(length+grace))
}

// A worker that has just got the lock calls enter with its id, which is 1 or more. The result is
// the id of the previous owner.
func (p *Page) enter(id int32) (before int32) {
	if !p.owner.CompareAndSwap(0, id) {
		p.violations.Add(1)
	}
	return p.last.Swap(id)
}

// A worker calls leave with its id just before it unlocks.
func (p *Page) leave(id int32) {
	p.owner.CompareAndSwap(id, 0)
	p.released.Store(now())
}

// SentByAll returns the number of commands that all processes have sent so far.
func (p *Page) SentByAll() (n int64) {
	for i := range p.Sent {
		n += p.Sent[i].Load()
	}
	return n
}

// NewPage makes a page in a file, so that child processes can map it too.
func NewPage() (*Page, *os.File, error) {
	f, err := os.CreateTemp("", "padlock-bench-page-")
	if err != nil {
		return nil, nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, nil, err
	}
	if err := f.Truncate(int64(unsafe.Sizeof(Page{}))); err != nil {
		return nil, nil, err
	}
	p, err := MapPage(f)
	return p, f, err
}

// MapPage maps a page that another process has made.
func MapPage(f *os.File) (*Page, error) {
	size := int(unsafe.Sizeof(Page{}))
	mem, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return (*Page)(unsafe.Pointer(&mem[0])), nil
}

// Unmap removes the mapping.
func (p *Page) Unmap() error {
	return syscall.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(Page{})))
}

var clock = driver.SystemClock()

// now returns the time of a clock that all processes of a machine share, in nanoseconds.
func now() int64 { return int64(clock.Now()) }
