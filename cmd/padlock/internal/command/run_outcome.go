package command

import (
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
)

// lostFailure says that the lock was lost.
func (f *front) lostFailure(format string, args ...any) *failure {
	return fail(int(f.set.lost), "lost", f.name, format, args...)
}

// lossReason explains why a lock ended before its release.
func lossReason(err error) string {
	switch {
	case err == nil, errors.Is(err, padlock.ErrExpired):
		return "its lease has run out"
	case errors.Is(err, padlock.ErrLost):
		if _, what, told := strings.Cut(reason(err), padlock.ErrLost.Error()+": "); told {
			return what
		}
		return "it was broken or ended at the store, and somebody else may have it"
	}
	return reason(err)
}

// shellHint returns a hint for the case that a whole shell line was given as the command.
func shellHint(command string) string {
	if !strings.ContainsAny(command, " |;&") {
		return ""
	}
	return " (for a line of the shell write padlock run NAME -c LINE)"
}

// cannotRun is the failure to find or to start a command.
func cannotRun(command string, err error) *failure {
	if killed, ok := errors.AsType[*supervise.KilledError](err); ok {
		return supervisorKilled(command, killed.Signal)
	}
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return fail(exitSystem, "system", "", "%s was not run: the limit of processes is reached (ulimit -u, pids.max, TasksMax)", show(command))
	case errors.Is(err, supervise.ErrStart), errors.Is(err, syscall.ENOMEM):
		return fail(exitSystem, "system", "", "%s was not run: %v", show(command), err)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist) && filepath.Base(command) == command:
		return fail(exitNotFound, "command", "", "%s: command not found; command not run%s", show(command), shellHint(command))
	case errors.Is(err, fs.ErrNotExist):
		// A script whose interpreter is missing causes the same error.
		return fail(exitNotFound, "command", "", "%s: no such file, or its interpreter is missing; command not run", show(command))
	case errors.Is(err, fs.ErrPermission):
		return fail(exitCannotRun, "command", "", "%s cannot be executed; command not run (a script needs chmod +x)", show(command))
	}
	if lookup, ok := errors.AsType[*exec.Error](err); ok {
		err = lookup.Err
	}
	return fail(exitCannotRun, "command", "", "%s cannot be executed: %v; command not run", show(command), err)
}

// supervisorKilled returns the failure for a supervisor that was killed by a signal before it could
// report that the command runs. If the signal is one that asks a process to end, such as SIGTERM,
// it was probably sent to all processes of padlock, as systemd does for a service. So the failure
// then says that padlock was interrupted.
func supervisorKilled(command string, sig syscall.Signal) *failure {
	if asksToEnd(sig) {
		return fail(128+int(sig), "interrupted", "", "%s before %s was started; command not run", sig, show(command))
	}
	return fail(128+int(sig), "killed", "", "the supervisor of %s was ended by a signal (%s) at its start; killing %s", show(command), sig, show(command))
}
