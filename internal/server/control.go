package server

import (
	"errors"
	"os"
	"time"
)

// Addr returns HOST:PORT. It stays the same over restarts.
func (s *Server) Addr() string { return s.place.Addr() }

// URL returns the server's address in the form that its clients use.
func (s *Server) URL() string { return s.spec.url(s.place) }

// Place returns the server's program, ports and directory.
func (s *Server) Place() Place { return s.place }

// Pid returns the number of the server's process, or of its last process if none runs.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.cmd.Process.Pid
}

// Kill sends SIGKILL to the server and to all processes that the server has started, as if they had
// crashed. It returns when they are gone. Restart starts the server again.
func (s *Server) Kill() {
	s.t.Helper()
	s.do("kill", s.end)
}

// Stop asks the server to end cleanly, and returns when it has ended. If it has not ended after
// Timeout, it is killed. Restart starts it again.
func (s *Server) Stop() {
	s.t.Helper()
	s.do("stop", s.stop)
}

// Restart starts the server again on the same port. If keepData is false, the server starts without
// its old data. If the server still runs, Restart stops it cleanly first. To simulate a crash, call
// Kill before Restart.
func (s *Server) Restart(keepData bool) {
	s.t.Helper()
	s.do("restart", func() error {
		if err := s.stop(); err != nil {
			return err
		}
		if !keepData {
			if err := s.emptyData(); err != nil {
				return err
			}
		}
		return s.start()
	})
}

// Crash calls Kill and then Restart. It always returns nil. Its type is that of the hook Crash in
// drivertest.Harness.
func (s *Server) Crash(keepData bool) error {
	s.t.Helper()
	s.Kill()
	s.Restart(keepData)
	return nil
}

// Pause sends SIGSTOP to the server and to all processes that the server has started. It returns
// when they are all stopped. Connections stay open, and the kernel still accepts new ones, but the
// server does not respond until Resume.
func (s *Server) Pause() {
	s.t.Helper()
	s.do("pause", func() error {
		if s.proc.hasEnded() {
			return errNotRunning
		}
		return s.proc.stop()
	})
}

// Freeze calls Pause and returns a function that calls Resume. The signature is the one that a
// drivertest.Harness needs. Both errors are always nil.
func (s *Server) Freeze() (resume func() error, err error) {
	s.t.Helper()
	s.Pause()
	return func() error { s.Resume(); return nil }, nil
}

// Resume lets a paused server continue.
func (s *Server) Resume() {
	s.t.Helper()
	s.do("resume", func() error {
		if s.proc.hasEnded() {
			return errNotRunning
		}
		return s.proc.cont()
	})
}

var errNotRunning = errors.New("it does not run")

// do calls change, which changes the server. Only one change runs at a time. If change returns an
// error, the test ends.
func (s *Server) do(what string, change func() error) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared {
		s.t.Fatalf("cannot %s %s: other tests use it", what, s.spec.Name)
	}
	if err := change(); err != nil {
		s.t.Fatalf("cannot %s %s: %v", what, s.spec.Name, err)
	}
}

func (s *Server) stop() error {
	if s.proc.hasEnded() {
		return nil
	}
	_ = s.proc.cont() // a stopped process would not handle the signal; on systems without SIGSTOP this does nothing
	if err := s.proc.cmd.Process.Signal(os.Interrupt); err != nil {
		return s.end() // this system does not have the signal
	}
	timeout := time.NewTimer(s.spec.timeout())
	defer timeout.Stop()
	select {
	case <-s.proc.done:
		return nil
	case <-timeout.C:
		return s.end()
	}
}
