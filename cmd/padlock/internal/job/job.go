// Package job runs one command as a tree of processes that can be signalled and ended as a whole.
// It knows nothing of locks.
//
// On Linux the tree is all descendants of the command: this process adopts the ones that the
// command leaves behind. Elsewhere on Unix it is the command's process group, which a process can
// leave by setsid. On Windows it is a job object, which no process can leave.
package job

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Group is the process group of the command.
func (j *Job) Group() int { return j.pid }

// Done is closed when the command itself has ended; then Exit is known.
func (j *Job) Done() <-chan struct{} { return j.done }

// Exit is how the command ended. It is the zero Exit before Done.
func (j *Job) Exit() Exit {
	select {
	case <-j.done:
		return j.exit
	default:
		return Exit{}
	}
}

// Gone is closed when nothing is left of the tree after EndRest.
func (j *Job) Gone() <-chan struct{} { return j.gone }

// Stopped reports that the command was stopped, and by which signal.
func (j *Job) Stopped() <-chan syscall.Signal { return j.stopped }

// Kill kills the whole tree, including processes that appear later.
func (j *Job) Kill() {
	j.killing.Store(true)
	j.killNow()
}

// settleTime is how long leftover processes may take to end by themselves, as the rest of a
// pipeline does, before they get a signal.
const settleTime = 30 * time.Millisecond

// EndRest sends sig to the processes that the command has left behind, including those that appear
// later, until none is left. After Kill it kills them. found, if not nil, is called with those
// processes before they get sig. Call EndRest once, after Done.
func (j *Job) EndRest(sig syscall.Signal, found func(pids []int)) {
	go func() {
		j.settle()
		told := map[int]bool{}
		for pause := time.Millisecond; j.endRound(sig, told, found); pause = min(2*pause, 50*time.Millisecond) {
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

// endRound signals the processes that are left and have got no signal yet, and reports whether any
// may be left. Where the kernel says when the last child is gone, that alone counts, because a list
// of processes may hide those of other users.
func (j *Job) endRound(sig syscall.Signal, told map[int]bool, found func(pids []int)) bool {
	left := j.Rest()
	if j.goneWithin(0) {
		// The list may be newer than the end of the tree. Then it has processes that this process
		// has started since.
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
		sig, fresh = kill, left // again and again
	}
	for _, pid := range fresh {
		j.tell(pid, sig)
	}
	return len(left) > 0 || j.adopts && len(j.before) == 0
}

// Find returns the path of a command as execvp(3) finds it. The error is fs.ErrNotExist or
// fs.ErrPermission.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if _, set := os.LookupEnv("PATH"); !set && errors.Is(err, exec.ErrNotFound) {
		path, err = findWithoutPath(name)
	}
	switch {
	case errors.Is(err, exec.ErrDot):
		return path, nil // a dot in PATH is the user's wish
	case errors.Is(err, exec.ErrNotFound):
		return "", fs.ErrNotExist
	case err != nil:
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return "", err
	}
	return path, nil
}

// findWithoutPath looks where the system does if PATH is not set.
func findWithoutPath(name string) (path string, err error) {
	for _, dir := range []string{"/bin", "/usr/bin"} {
		if path, err = exec.LookPath(filepath.Join(dir, name)); err == nil {
			break
		}
	}
	return path, err
}
