//go:build unix

package command

import (
	"strings"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
)

// A signal that reaches the second process before it catches signals counts as one to padlock.
func TestSupervisorKilledAtItsStart(t *testing.T) {
	for sig, want := range map[syscall.Signal]string{
		syscall.SIGTERM: "before report.sh was started; command not run",
		syscall.SIGHUP:  "before report.sh was started; command not run",
		syscall.SIGKILL: "the supervisor of report.sh was ended by a signal",
	} {
		why := cannotRun("report.sh", &supervise.KilledError{Signal: sig})
		if why.status != 128+int(sig) || !strings.Contains(why.note.Message, want) {
			t.Errorf("%v: status %d, %s", sig, why.status, why.note.Message)
		}
	}
}
