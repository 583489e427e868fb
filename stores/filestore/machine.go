package filestore

import (
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/padlock-go/padlock/driver"
)

// machineInfo has facts that do not change while this process runs.
type machineInfo struct {
	host    string
	pid     int
	boot    [16]byte // the id of this boot of the machine; zero if unknown
	pidns   uint64   // the inode of the pid namespace; 0 if unknown
	start   uint64   // when the process started, in ticks since boot; 0 if unknown
	seesAll bool     // /proc/locks shows the locks of every process
}

var machine = sync.OnceValue(func() *machineInfo {
	m := &machineInfo{pid: os.Getpid()}
	m.host, _ = os.Hostname()
	if len(m.host) > driver.MaxHost {
		m.host = m.host[:driver.MaxHost]
	}
	m.readKernel()
	return m
})

// moment is a point in time that other processes understand. Within one boot of the machine it is
// measured by the boot clock, which cannot be set. After a reboot, and on systems without a boot
// clock, it is measured by the wall clock. The zero moment means that there is no such time.
type moment struct {
	wall int64 // µs since 1970
	boot int64 // ns since boot; 0 if unknown
}

// momentIn returns the moment that is d later than now. The argument wall is the current time of
// the wall clock.
func momentIn(d time.Duration, wall time.Time) moment {
	m := moment{wall: wall.Add(d).UnixMicro()}
	if now := bootNow(); now > 0 && machine().boot != [16]byte{} {
		m.boot = now + int64(d)
	}
	return m
}

// timeLeft returns the time from now until m, or 0 if m has passed. If that time is longer than the
// longest cool-down, the wall clock must have been set back. Then timeLeft returns 0, too.
func (m moment) timeLeft(wall time.Time) time.Duration {
	var d time.Duration
	switch {
	case m == moment{}:
		return 0
	case m.boot != 0:
		d = time.Duration(m.boot - bootNow())
	default:
		d = time.UnixMicro(m.wall).Sub(wall)
	}
	if d < 0 || d > driver.MaxTTL {
		return 0
	}
	return d
}

// before reports whether m is earlier than other, by the clock that both know.
func (m moment) before(other moment) bool {
	if m.boot != 0 && other.boot != 0 {
		return m.boot < other.boot
	}
	return m.wall < other.wall
}

// laterOf returns the later of two moments.
func laterOf(a, b moment, wall time.Time) moment {
	if a.timeLeft(wall) > b.timeLeft(wall) {
		return a
	}
	return b
}

// processState tells whether the process that wrote a record is alive.
type processState int

const (
	processUnknown processState = iota
	processAlive
	processDead
)

// state returns the state of the process that wrote o during the given boot.
func (o *owner) state(boot [16]byte) processState {
	m := machine()
	switch {
	case m.boot == [16]byte{} || boot == [16]byte{}:
		return processUnknown
	case boot != m.boot:
		return processDead
	case m.pidns == 0 || o.pidns != m.pidns:
		return processUnknown
	case o.proc == uint64(m.pid) && o.start == m.start:
		return processAlive
	}
	return findProcess(int(o.proc), o.start)
}

// bytesOf returns the bytes of s, which must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
