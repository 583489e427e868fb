package filestore

import (
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// notifier gets a notice from the kernel when a lock file was closed or touched (inotify). All
// files of the store share one inotify descriptor, because a user may have just 128 of them. The
// descriptor is open only while a file is watched, and for notifyIdle after that.
//
// On a busy machine, closing an inotify descriptor takes seconds. So notifier never closes it while
// it holds mu. Otherwise every waiter of the store would have to wait.
type notifier struct {
	mu      sync.Mutex
	idle    *time.Timer // closes the descriptor; nil while a file is watched or no descriptor is open
	fd      int
	file    *os.File // nil if no descriptor is open
	closed  bool
	files   map[int32]map[*file]bool // by watch
	running sync.WaitGroup
	notices atomic.Int64 // how many notices arrived
}

// fileWatch is an inotify watch on one file. notifier.mu guards it.
type fileWatch struct {
	id       int32 // 0 if there is no watch
	dev, ino uint64
}

// watchMask has the events after which a waiter may be able to take the lock. A padlock process
// that gives the lock back touches the file (IN_ATTRIB), and other programs close it. If the file
// was removed or renamed, the waiter must open the path again. Writes of records (IN_MODIFY) do not
// matter.
const watchMask = syscall.IN_ATTRIB | syscall.IN_CLOSE_WRITE | syscall.IN_CLOSE_NOWRITE |
	syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF

// watch makes sure that f's waiters are woken when something happens to the file of c. It returns
// false if the system allows no more watches.
func (n *notifier) watch(f *file, c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || !n.start() {
		return false
	}
	defer n.closeLater()
	if f.watched.id != 0 && f.watched.dev == c.dev && f.watched.ino == c.ino {
		return true
	}
	n.drop(f)
	// Unlike the name of the file, this path always leads to the file of c.
	id, err := syscall.InotifyAddWatch(n.fd, "/proc/self/fd/"+strconv.Itoa(c.fd), watchMask)
	if err != nil {
		return false
	}
	f.watched = fileWatch{int32(id), c.dev, c.ino}
	if n.files[int32(id)] == nil {
		n.files[int32(id)] = map[*file]bool{}
	}
	n.files[int32(id)][f] = true
	return true
}

// watches reports whether the notifier watches the same file that f.spare has open. If f.spare is
// nil, watches returns true.
func (n *notifier) watches(f *file) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return f.spare == nil || f.watched.id != 0 && f.watched.dev == f.spare.dev && f.watched.ino == f.spare.ino
}

// unwatch ends the watch on f, because nobody waits for f any more.
func (n *notifier) unwatch(f *file) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(f)
	n.closeLater()
}

func (n *notifier) drop(f *file) {
	id := f.watched.id
	f.watched = fileWatch{}
	if id == 0 || n.file == nil {
		return
	}
	delete(n.files[id], f)
	if len(n.files[id]) == 0 {
		delete(n.files, id)
		_, _ = syscall.InotifyRmWatch(n.fd, uint32(id)) // fails if the file, and so its watch, is gone
	}
}

// notifyIdle is how long the descriptor stays open while nothing is watched.
const notifyIdle = time.Second

// closeLater starts a timer that closes the inotify descriptor after notifyIdle. If a file is still
// watched, closeLater does nothing. The caller holds mu.
func (n *notifier) closeLater() {
	if n.file == nil || len(n.files) > 0 || n.idle != nil {
		return
	}
	file := n.file
	n.idle = time.AfterFunc(notifyIdle, func() { n.closeIdle(file) })
}

// closeIdle closes the descriptor if nothing has been watched since the timer was started.
func (n *notifier) closeIdle(file *os.File) {
	n.mu.Lock()
	if n.file != file || n.idle == nil || len(n.files) > 0 {
		n.mu.Unlock()
		return
	}
	n.file, n.idle = nil, nil
	n.mu.Unlock()
	file.Close()
}

// start makes sure that there is a descriptor. The caller holds mu.
func (n *notifier) start() bool {
	if n.idle != nil {
		n.idle.Stop() // if the timer has already fired, closeIdle sees that n.idle is nil and does nothing
		n.idle = nil
	}
	if n.file != nil {
		return true
	}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return false
	}
	n.fd, n.files = fd, map[int32]map[*file]bool{}
	file := os.NewFile(uintptr(fd), "inotify") // waits in the runtime's poller, without a thread
	n.file = file
	n.running.Go(func() { n.run(file) })
	return true
}

func (n *notifier) run(events *os.File) {
	buf := make([]byte, 64*(syscall.SizeofInotifyEvent+16))
	for {
		size, err := events.Read(buf)
		if err != nil {
			return // closed
		}
		for b := buf[:size]; len(b) >= syscall.SizeofInotifyEvent; {
			id := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			n.wake(events, id, mask)
			b = b[syscall.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])):]
		}
	}
}

// wake wakes the waiters of a watch, or all waiters if events were lost.
func (n *notifier) wake(events *os.File, id int32, mask uint32) {
	n.mu.Lock()
	if n.file != events {
		n.mu.Unlock()
		return // closed meanwhile
	}
	var files []*file
	for f := range n.files[id] {
		files = append(files, f)
		if mask&syscall.IN_IGNORED != 0 {
			f.watched = fileWatch{}
		}
	}
	if mask&syscall.IN_IGNORED != 0 {
		delete(n.files, id)
	}
	if mask&syscall.IN_Q_OVERFLOW != 0 {
		for _, set := range n.files {
			files = slices.AppendSeq(files, maps.Keys(set))
		}
	}
	n.closeLater()
	n.mu.Unlock()
	n.notices.Add(int64(len(files)))
	for _, f := range files {
		f.queue.onNotice()
	}
}

func (n *notifier) close() {
	n.mu.Lock()
	n.closed = true
	n.files = nil
	file := n.file
	n.file = nil
	if n.idle != nil {
		n.idle.Stop()
		n.idle = nil
	}
	n.mu.Unlock()
	if file != nil {
		file.Close()
	}
	n.running.Wait()
}

// markWaited sets the file's size to sizeWaited. That size tells other processes that a process
// waits for the lock.
func markWaited(c *conn) bool {
	_, size := c.state()
	return size == sizeWaited || c.truncate(sizeWaited) == nil
}

// wakeOthers wakes the waiters of all processes that watch the file. First it sets the file's size
// back to sizeCalm. Then it touches the file, which wakes them. In between, a new waiter may have
// set the size to sizeWaited again, but then that waiter watches the file and is woken, too.
func wakeOthers(c *conn) {
	_ = c.truncate(sizeCalm)
	touch(c)
}

// touch sets the file's times to now.
func touch(c *conn) {
	_, _, _ = syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(c.fd), 0, uintptr(unsafe.Pointer(nil)), 0, 0, 0)
}
