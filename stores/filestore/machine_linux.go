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
	m.start, _, _ = processStart("/proc/self/stat")
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

// processStart reads field 22 of a stat file of /proc, and whether the process still works. One that
// has ended stays a zombie until its parent asks for its status; one whose first thread alone has
// ended looks like that, too, but has more threads (field 20). Field 2 is the name of the program in
// brackets, and may contain any character.
func processStart(path string) (start uint64, works bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, false, syscall.EINVAL
	}
	start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	ended := fields[0][0] == 'Z' || fields[0][0] == 'X'
	return start, !ended || string(fields[17]) != "1", err
}

func findProcess(pid int, start uint64) processState {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return processDead
	}
	now, works, err := processStart("/proc/" + strconv.Itoa(pid) + "/stat")
	switch {
	case err != nil || start == 0: // /proc is hidden from this process, or was from the holder
		return processUnknown
	case now != start || !works: // its number was given to another process, or nobody has reaped it
		return processDead
	}
	return processAlive
}
