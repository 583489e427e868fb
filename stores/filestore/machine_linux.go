package filestore

import (
	"bytes"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// initPIDNamespace is the inode that the kernel always gives to the first pid namespace.
const initPIDNamespace = 0xEFFFFFFC

func (m *machineInfo) readKernel() {
	if text, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		id, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
		if err == nil && len(id) == len(m.boot) {
			copy(m.boot[:], id)
		}
	}
	var st syscall.Stat_t
	if syscall.Stat("/proc/self/ns/pid", &st) == nil {
		m.pidns = st.Ino
	}
	m.seesAll = m.pidns == initPIDNamespace
	m.start, _ = processStart("/proc/self/stat")
}

// bootNow returns the time of CLOCK_BOOTTIME, which is the same for all processes of the machine.
func bootNow() int64 {
	const clockBoottime = 7
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return ts.Nano()
}

// processStart reads field 22 of a stat file of /proc. Field 2 is the name of the program in
// brackets, and may contain any character.
func processStart(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, syscall.EINVAL
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

func findProcess(pid int, start uint64) processState {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return processDead
	}
	now, err := processStart("/proc/" + strconv.Itoa(pid) + "/stat")
	switch {
	case err != nil || start == 0: // /proc is hidden from this process, or was from the holder
		return processUnknown
	case now != start:
		return processDead // its number was given to another process
	}
	return processAlive
}
