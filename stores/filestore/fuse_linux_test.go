package filestore

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

func init() { scripts["fuse"] = serveFuse }

// On a network file system without a lock manager, flock(2) may never return, even with LOCK_NB.
// Each call ends nevertheless, and says so. If the kernel grants such a lock in the end, nobody has
// it.
func TestFlockThatNeverReturns(t *testing.T) {
	t.Parallel()
	server.NeedsRoot(t) // to mount FUSE
	fs, dir := mountFuse(t)
	s := open(t, dir, AllowNetwork(), func(c *config) { c.flockPatience = time.Minute })
	s.config.probes = true // as on systems without a list of locks
	take(t, s, request("held", "us"))
	take(t, s, shared("read", "us"))
	hang(t, fs, true)
	const short = 20 * time.Millisecond
	s.config.flockPatience, s.seen.patience = short, short
	for _, f := range s.files {
		f.drop()
		for _, h := range f.holds {
			h.conn.patience = short
		}
	}
	detached := request("key", "us")
	detached.Detached = true
	for _, c := range []struct {
		verb string
		call func() error
	}{
		{"Acquire", func() error { _, err := s.Acquire(patience(t), request("job", "us")); return err }},
		{"Acquire, shared", func() error { _, err := s.Acquire(patience(t), shared("job", "us")); return err }},
		{"Acquire, detached", func() error { _, err := s.Acquire(patience(t), detached); return err }},
		{"Wait", func() error { _, err := s.Wait(patience(t), request("job", "us"), true); return err }},
		{"Wait that only watches", func() error { _, err := s.Wait(patience(t), request("job", "us"), false); return err }},
		{"Convert", func() error { _, err := s.Convert(patience(t), request("read", "us")); return err }},
		{"Inspect", func() error { _, err := s.Inspect(patience(t), "held"); return err }},
		{"List", func() error { _, err := s.List(patience(t), ""); return err }},
		{"Break", func() error { _, err := s.Break(patience(t), "job", 0); return err }},
	} {
		if err := within(t, c.verb, c.call); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "flock") {
			t.Errorf("%s: %v, want ErrUnavailable", c.verb, err)
		}
	}
	s.config.probes = false
	if _, err := s.Inspect(patience(t), "held"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Inspect without a probe: %v, want ErrUnsupported", err)
	}
	if err := within(t, "Release", func() error { _, err := s.Release(patience(t), "held", "us", 0); return err }); err != nil {
		t.Error(err)
	}
	if err := within(t, "Close", s.Close); err != nil {
		t.Error(err)
	}
	hang(t, fs, false)
	next := open(t, dir, AllowNetwork(), func(c *config) { c.flockPatience = time.Minute })
	for _, name := range []string{"job", "held", "key"} {
		eventually(t, name+" is free", func() bool { _, err := next.Acquire(patience(t), request(name, "them")); return err == nil })
	}
}

// within ends the test if a call does not end.
func within(t *testing.T, what string, call func() error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		t.Fatal(what + " hangs")
		return nil
	}
}

// fuse is a file system in memory with one flat directory. It answers requests for flock(2) later,
// if it is told to. It is a process of its own with a mount of its own, so that both end with the
// test, even while a thread of the test hangs.
type fuse struct {
	fd int

	mu      sync.Mutex
	hanging bool
	waiting [][]byte // the requests for flock(2) that have no answer yet
	names   map[string]uint64
	files   []*fuseFile // by number, less 2
	handles uint64
}

type fuseFile struct {
	data  []byte
	mode  uint32
	locks map[uint64]uint32 // by owner: F_RDLCK or F_WRLCK
}

// mountFuse starts the file system, and returns its directory.
func mountFuse(t *testing.T) (c *child, dir string) {
	t.Helper()
	dir = t.TempDir()
	c = start(t, "fuse", dir, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	})
	c.expect("mounted")
	return c, fmt.Sprintf("/proc/%d/root%s", c.cmd.Process.Pid, dir)
}

// hang says whether requests for flock(2) wait. If not, those that wait are answered.
func hang(t *testing.T, c *child, on bool) {
	t.Helper()
	fmt.Fprintln(c.in, on)
	c.expect(fmt.Sprint(on))
}

func serveFuse(dir string) error {
	fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40700,user_id=%d,group_id=%d", fd, os.Geteuid(), os.Getegid())
	if err := syscall.Mount("padlock-test", dir, "fuse", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		return err
	}
	f := &fuse{fd: fd, names: map[string]uint64{}}
	go f.serve()
	fmt.Println("mounted")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println(lines.Text()) {
		f.hang(lines.Text() == "true")
	}
	return nil
}

func (f *fuse) hang(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hanging = on
	if !on {
		for _, request := range f.waiting {
			f.answer(request)
		}
		f.waiting = nil
	}
}

func (f *fuse) serve() {
	buf := make([]byte, 1<<18)
	for {
		n, err := syscall.Read(f.fd, buf)
		switch {
		case err == syscall.EINTR || err == syscall.ENOENT || err == syscall.EAGAIN:
			continue
		case err != nil:
			return // unmounted
		}
		const setlk, setlkw = 32, 33
		request := append([]byte(nil), buf[:n]...)
		f.mu.Lock()
		if op := native.Uint32(request[4:]); f.hanging && (op == setlk || op == setlkw) {
			f.waiting = append(f.waiting, request)
		} else {
			f.answer(request)
		}
		f.mu.Unlock()
	}
}

var native = binary.NativeEndian

// answer answers a request. The numbers are those of the kernel's include/uapi/linux/fuse.h.
func (f *fuse) answer(request []byte) {
	const noReply = 1
	body, errno := f.do(native.Uint32(request[4:]), native.Uint64(request[16:]), request[40:])
	if errno == noReply {
		return
	}
	reply := make([]byte, 16, 16+len(body))
	native.PutUint32(reply, uint32(16+len(body)))
	native.PutUint32(reply[4:], uint32(-int32(errno)))
	copy(reply[8:16], request[8:16])
	_, _ = syscall.Write(f.fd, append(reply, body...)) // ENOENT: the request was given up
}

func (f *fuse) do(op uint32, node uint64, in []byte) ([]byte, syscall.Errno) {
	const (
		noReply = 1
		root    = 1
	)
	if node > root {
		if out, errno := f.files[node-2].do(op, in); errno != syscall.ENOSYS {
			return out, errno
		}
	}
	switch op {
	case 26: // INIT: version 7.31, flock to the server, writes of 128 KiB
		out := make([]byte, 64)
		native.PutUint32(out, 7)
		native.PutUint32(out[4:], 31)
		native.PutUint32(out[8:], native.Uint32(in[8:]))
		native.PutUint32(out[12:], 1<<10) // FUSE_FLOCK_LOCKS
		native.PutUint32(out[20:], 1<<17)
		return out, 0
	case 1: // LOOKUP
		id, ok := f.names[cString(in)]
		if !ok {
			return nil, syscall.ENOENT
		}
		return f.entry(id), 0
	case 2, 42, 36: // FORGET, BATCH_FORGET, INTERRUPT
		return nil, noReply
	case 3, 4: // GETATTR, and after SETATTR
		return append(make([]byte, 16), f.attr(node)...), 0
	case 8: // MKNOD
		f.files = append(f.files, &fuseFile{mode: native.Uint32(in), locks: map[uint64]uint32{}})
		id := uint64(len(f.files) + 1)
		f.names[cString(in[16:])] = id
		return f.entry(id), 0
	case 10: // UNLINK
		delete(f.names, cString(in))
		return nil, 0
	case 14, 27: // OPEN, OPENDIR
		f.handles++
		out := make([]byte, 16)
		native.PutUint64(out, f.handles)
		native.PutUint32(out[8:], 1) // FOPEN_DIRECT_IO
		return out, 0
	case 17: // STATFS
		return make([]byte, 80), 0
	case 29, 25: // RELEASEDIR, FLUSH
		return nil, 0
	case 28: // READDIR: all names in the first reply
		if native.Uint64(in[8:]) > 0 {
			return nil, 0
		}
		var out []byte
		for name, id := range f.names {
			out = native.AppendUint64(native.AppendUint64(out, id), 1)
			out = native.AppendUint32(native.AppendUint32(out, uint32(len(name))), 0)
			out = append(append(out, name...), make([]byte, -len(name)&7)...)
		}
		return out, 0
	}
	return nil, syscall.ENOSYS
}

// do carries out a request for a file. ENOSYS means that do has no answer.
func (file *fuseFile) do(op uint32, in []byte) ([]byte, syscall.Errno) {
	switch op {
	case 4: // SETATTR: mode or size; the caller answers with the attributes
		valid := native.Uint32(in)
		if valid&1 != 0 {
			file.mode = native.Uint32(in[68:])
		}
		if size := native.Uint64(in[16:]); valid&8 != 0 {
			file.data = append(file.data, make([]byte, size)...)[:size]
		}
	case 15: // READ
		from := min(native.Uint64(in[8:]), uint64(len(file.data)))
		return file.data[from:min(from+uint64(native.Uint32(in[16:])), uint64(len(file.data)))], 0
	case 16: // WRITE
		at, n := native.Uint64(in[8:]), uint64(native.Uint32(in[16:]))
		if end := at + n; end > uint64(len(file.data)) {
			file.data = append(file.data, make([]byte, end-uint64(len(file.data)))...)
		}
		copy(file.data[at:], in[40:40+n])
		out := make([]byte, 8)
		native.PutUint32(out, uint32(n))
		return out, 0
	case 18: // RELEASE
		if native.Uint32(in[12:])&2 != 0 { // FUSE_RELEASE_FLOCK_UNLOCK
			delete(file.locks, native.Uint64(in[16:]))
		}
		return nil, 0
	case 32, 33: // SETLK, SETLKW
		return nil, file.lock(native.Uint64(in[8:]), native.Uint32(in[32:]))
	}
	return nil, syscall.ENOSYS
}

func (file *fuseFile) lock(owner uint64, kind uint32) syscall.Errno {
	if kind == syscall.F_UNLCK {
		delete(file.locks, owner)
		return 0
	}
	for other, has := range file.locks {
		if other != owner && (kind == syscall.F_WRLCK || has == syscall.F_WRLCK) {
			return syscall.EAGAIN
		}
	}
	file.locks[owner] = kind
	return 0
}

func (f *fuse) entry(id uint64) []byte {
	out := make([]byte, 40)
	native.PutUint64(out, id)
	return append(out, f.attr(id)...)
}

func (f *fuse) attr(id uint64) []byte {
	out := make([]byte, 88)
	native.PutUint64(out, id)
	mode, links := uint32(syscall.S_IFDIR|0o700), uint32(2)
	if id > 1 {
		file := f.files[id-2]
		mode, links = file.mode&0o7777|syscall.S_IFREG, 1
		native.PutUint64(out[8:], uint64(len(file.data)))
	}
	native.PutUint32(out[60:], mode)
	native.PutUint32(out[64:], links)
	native.PutUint32(out[68:], uint32(os.Geteuid()))
	native.PutUint32(out[72:], uint32(os.Getegid()))
	native.PutUint32(out[80:], 4096)
	return out
}

func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
