package filestore

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// statx is the result of a request for only the type and the number of a file. The
// request does not ask for the times of the file. Since Linux 6.13, a request for the times slows
// down the next write to the file: the kernel then stores the times to the nanosecond, which takes
// longer than the write itself.
type statx struct {
	_        [32]byte
	ino      uint64
	_        [96]byte
	devMajor uint32
	devMinor uint32
	_        [112]byte
}

const (
	statxWants   = 0x1 | 0x100 // type, ino
	atFDCWD      = ^uintptr(99)
	atNoFollow   = 0x100
	minorLowBits = 0xff
	majorLowBits = 0xfff
)

// noStatx is set if the kernel has no statx, or a container's filter blocks it.
var noStatx atomic.Bool

// statPath returns the state of the file at path. The path must end with a zero byte.
func statPath(path string) (fileState, error) {
	if sysStatx != 0 && !noStatx.Load() {
		var st statx
		_, _, errno := syscall.Syscall6(sysStatx, atFDCWD, uintptr(unsafe.Pointer(unsafe.StringData(path))), atNoFollow, statxWants, uintptr(unsafe.Pointer(&st)), 0)
		if st, err, ok := st.result(errno); ok {
			return st, err
		}
	}
	var st syscall.Stat_t
	err := syscall.Lstat(path[:len(path)-1], &st)
	return stateOfStat(&st), err
}

// result converts the kernel's result. ok is false if the kernel has no statx.
func (st *statx) result(errno syscall.Errno) (s fileState, err error, ok bool) {
	switch errno {
	case 0:
		major, minor := uint64(st.devMajor), uint64(st.devMinor)
		dev := minor&minorLowBits | major&majorLowBits<<8 | minor&^minorLowBits<<12 | major&^majorLowBits<<32
		return fileState{dev, st.ino}, nil, true
	case syscall.ENOSYS, syscall.EPERM: // EPERM: the filter of an old container
		noStatx.Store(true)
		return s, nil, false
	default:
		return s, errno, true
	}
}
