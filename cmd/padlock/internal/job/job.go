// Package job runs one command as a tree of processes that can be signalled and ended as a whole.
// It does not use locks.
//
// On Linux the tree consists of all descendants of the command: this process adopts those that the
// command leaves behind. On other Unix systems it is the command's process group, which a process
// can leave with setsid. On Windows it is a job object, which no process can leave.
package job

import (
	"syscall"
	"time"
)

// Done is closed when the command itself has ended. Then Exit is known.
func (j *Job) Done() <-chan struct{} { return j.done }

// Exit returns how the command ended. Before Done it returns the zero Exit.
func (j *Job) Exit() Exit {
	select {
	case <-j.done:
		return j.exit
	default:
		return Exit{}
	}
}

// Gone is closed when, after EndRest, no process of the tree is left.
func (j *Job) Gone() <-chan struct{} { return j.gone }

// Stopped returns a channel that gets a value each time the command is stopped. The value is the
// signal that stopped the command.
func (j *Job) Stopped() <-chan syscall.Signal { return j.stopped }

// Kill kills the whole tree, including processes that appear later.
func (j *Job) Kill() {
	j.killing.Store(true)
	j.killNow()
	go func() { // the process of the command may appear after killNow has looked for it
		for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
			select {
			case <-j.started:
				return
			case <-time.After(pause):
				j.killNow()
			}
		}
	}()
}

// settleTime is how long leftover processes have to end by themselves before they get a signal. The
// rest of a pipeline, for example, ends by itself soon after the command. Tests set it.
var settleTime = 30 * time.Millisecond

// EndRest sends sig to the processes that the command left behind, including those that appear
// later, until none of them is left. If Kill was called, EndRest kills the processes instead. If
// onFound is not nil, EndRest calls it with the processes before it sends them the signal. Call
// EndRest once, after Done is closed.
func (j *Job) EndRest(sig syscall.Signal, onFound func(pids []int)) {
	go func() {
		j.settle()
		told := map[int]bool{}
		for pause := time.Millisecond; j.endRound(sig, told, onFound); pause = min(2*pause, 50*time.Millisecond) {
			if j.goneWithin(pause) {
				return
			}
		}
		j.once.Do(func() { close(j.gone) })
	}()
}

func (j *Job) settle() {
	for end := time.Now().Add(settleTime); time.Now().Before(end); {
		if j.killing.Load() || len(j.Rest()) == 0 || j.goneWithin(2*time.Millisecond) {
			return
		}
	}
}

func (j *Job) goneWithin(d time.Duration) bool {
	if d == 0 {
		select {
		case <-j.gone:
			return true
		default:
			return false
		}
	}
	select {
	case <-j.gone:
		return true
	case <-time.After(d):
		return false
	}
}

// endRound signals the leftover processes that have not got a signal yet. It reports whether any
// process may be left.
func (j *Job) endRound(sig syscall.Signal, told map[int]bool, found func(pids []int)) bool {
	left := j.Rest()
	if j.goneWithin(0) {
		// The list may have been made after the tree had ended. Then it contains processes that
		// this process started later.
		return false
	}
	var fresh []int
	for _, pid := range left {
		if !told[pid] {
			told[pid] = true
			fresh = append(fresh, pid)
		}
	}
	if len(fresh) > 0 && found != nil {
		found(fresh)
	}
	if j.killing.Load() {
		sig, fresh = kill, left // kill all of them in every round
	}
	for _, pid := range fresh {
		j.signalAwake(pid, sig)
	}
	// The list may lack processes of other users. Where the kernel reports the end of the last
	// child, wait for that report.
	return len(left) > 0 || j.adopts && len(j.before) == 0
}
