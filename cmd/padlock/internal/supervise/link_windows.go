package supervise

import (
	"io"
	"net"
	"os"
	"syscall"
)

// localSupervisor is a supervisor in the same process as the front. If the front is killed, the
// kernel ends the job.
type localSupervisor struct{ done chan struct{} }

func newLink(*Spec) link { return &localSupervisor{make(chan struct{})} }

func (w *localSupervisor) startSupervisor() (io.ReadWriteCloser, error) {
	front, supervisor := net.Pipe()
	go func() {
		defer close(w.done)
		defer supervisor.Close()
		serve(supervisor, nil, nil, func(int) {})
	}()
	return front, nil
}

func (w *localSupervisor) join() syscall.Signal {
	<-w.done
	return 0
}

func (*localSupervisor) kill() error        { return nil }
func (*localSupervisor) takeOver(int, bool) {}
func (*localSupervisor) rest() []int        { return nil }
func (*localSupervisor) blind() bool        { return false }

// Called reports whether this process was started as a supervisor.
func Called() bool { return false }

// Main is the supervisor's program. Windows has none.
func Main(<-chan os.Signal, func(group int)) {}
