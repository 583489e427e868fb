//go:build linux && !android && (amd64 || arm64 || riscv64 || loong64)

package semstore

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// These numbers are the kernel's. They are the same on all machines for which this file is built.
const (
	ipcCreate  = 0o1000
	ipcRemove  = 0
	cmdPID     = 11
	cmdValue   = 12
	cmdWaiters = 14
	cmdSet     = 16
	cmdState   = 2
	cmdValues  = 13

	flagNoWait = 0o4000
	flagUndo   = 0x1000

	permissions = 0o666 // as in PHP
)

const supported = true

// find returns the set of key, or errRemoved if there is none. If create is true, find makes a set
// that is missing.
func find(key int32, create bool) (id int, err error) {
	flags := uintptr(permissions)
	if create {
		flags |= ipcCreate
	}
	r, _, errno := syscall.Syscall(syscall.SYS_SEMGET, uintptr(key), semCount, flags)
	if errno == syscall.ENOENT {
		return 0, errRemoved
	}
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// operate carries out all ops in one step, or none of them. If it cannot carry them out now, it
// waits until it can, at most for maxWait. With flagNoWait in the ops it does not wait.
func operate(id int, maxWait time.Duration, ops ...operation) error {
	limit := syscall.NsecToTimespec(int64(maxWait))
	_, _, errno := syscall.Syscall6(syscall.SYS_SEMTIMEDOP, uintptr(id),
		uintptr(unsafe.Pointer(&ops[0])), uintptr(len(ops)), uintptr(unsafe.Pointer(&limit)), 0, 0)
	return meaning(errno)
}

func value(id, sem int) (int, error)   { return control(id, sem, cmdValue, 0) }
func waiters(id, sem int) (int, error) { return control(id, sem, cmdWaiters, 0) }
func lastPID(id, sem int) (int, error) { return control(id, sem, cmdPID, 0) }

// values returns the values of all semaphores of a set. The set has semCount semaphores.
func values(id int) (v [semCount]uint16, err error) {
	_, _, errno := syscall.Syscall6(syscall.SYS_SEMCTL, uintptr(id), 0, cmdValues, uintptr(unsafe.Pointer(&v)), 0, 0)
	return v, meaning(errno)
}

// mode returns the permissions of a set. They are in the kernel's struct semid64_ds, behind a key
// and four numbers of users.
func mode(id int) (uint32, error) {
	var state [256]uint32 // more than the struct
	_, _, errno := syscall.Syscall6(syscall.SYS_SEMCTL, uintptr(id), 0, cmdState, uintptr(unsafe.Pointer(&state)), 0, 0)
	return state[5] & 0o777, meaning(errno)
}

func setValue(id, sem, to int) error {
	_, err := control(id, sem, cmdSet, to)
	return err
}

// remove removes the set. Everybody who waits for the set gets errRemoved.
func remove(id int) error {
	_, err := control(id, 0, ipcRemove, 0)
	return err
}

func control(id, sem, command, argument int) (int, error) {
	r, _, errno := syscall.Syscall6(syscall.SYS_SEMCTL, uintptr(id), uintptr(sem), uintptr(command), uintptr(argument), 0, 0)
	return int(r), meaning(errno)
}

func meaning(errno syscall.Errno) error {
	switch errno {
	case 0:
		return nil
	case syscall.EIDRM, syscall.EINVAL: // removed while the call waited, or before
		return errRemoved
	case syscall.EAGAIN:
		return errBusy
	case syscall.EINTR:
		return errInterrupted
	case syscall.EPERM, syscall.EACCES:
		return errNotAllowed
	}
	return fmt.Errorf("semaphore: %w", errno)
}

// threadID returns the number of the calling thread. The function nudge takes this number, and
// interrupts a system call in which the thread waits. nudge sends SIGURG, because Go's own handler
// for this signal has no other effect.
func threadID() int { return syscall.Gettid() }

func nudge(thread int) {
	syscall.Syscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(thread), uintptr(syscall.SIGURG))
}

// advice returns the advice for an error of semget.
func advice(err error) string {
	switch err {
	case syscall.ENOSPC:
		return "the kernel has no room for another semaphore; raise kernel.sem (sysctl), or remove old ones (ipcs -s, ipcrm)"
	case syscall.EACCES:
		return "another program made it for another user; remove it (ipcrm -S) or run as that user"
	case syscall.EINVAL:
		return "another program made it with fewer than three semaphores; rename the lock"
	case syscall.ENOSYS:
		return "this kernel or sandbox has no System V semaphores; use another store"
	}
	return ""
}
