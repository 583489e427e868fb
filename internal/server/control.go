package server

import (
	"errors"
	"os"
	"time"
)

// Addr is host:port, the same over restarts.
func (s *Server) Addr() string { return s.place.Addr() }

// URL is the address in the form that clients of this server take.
func (s *Server) URL() string { return s.spec.url(s.place) }

// Place is where the server lives.
func (s *Server) Place() Place { return s.place }

// Pid is the process of the server, of the last one when none runs.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.cmd.Process.Pid
}

// Kill ends the server at once and without notice, with SIGKILL, together with
// all processes it has started, and returns when it is gone. Restart brings it
// back.
func (s *Server) Kill() {
	s.t.Helper()
	s.do("kill", s.end)
}

// Stop asks the server to end in order and returns when it has; after Timeout
// it is killed. Restart brings it back.
func (s *Server) Stop() {
	s.t.Helper()
	s.do("stop", s.stop)
}

// Restart starts the server again on its port, with the data that it has kept
// or with none. One that still runs is stopped in order first; call Kill before
// to have it crash.
func (s *Server) Restart(keepData bool) {
	s.t.Helper()
	s.do("restart", func() error {
		if err := s.stop(); err != nil {
			return err
		}
		if !keepData {
			if err := s.empty(); err != nil {
				return err
			}
		}
		return s.start()
	})
}

// Pause freezes the server with SIGSTOP, together with all processes it has
// started: connections stay, the kernel still accepts new ones, and nothing is
// answered until Resume. It returns when all of them stand still.
func (s *Server) Pause() {
	s.t.Helper()
	s.do("pause", func() error {
		if s.proc.ended() {
			return errNotRunning
		}
		return s.proc.stop()
	})
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.t.Helper()
	s.do("resume", func() error {
		if s.proc.ended() {
			return errNotRunning
		}
		return s.proc.cont()
	})
}

var errNotRunning = errors.New("it does not run")

// do runs one change at a time and ends the test when it fails.
func (s *Server) do(what string, change func() error) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := change(); err != nil {
		s.t.Fatalf("cannot %s %s: %v", what, s.spec.Name, err)
	}
}

func (s *Server) stop() error {
	if s.proc.ended() {
		return nil
	}
	_ = s.proc.cont() // a frozen process hears no signal; where nothing freezes, nothing thaws
	if err := s.proc.cmd.Process.Signal(s.stopSignal()); err != nil {
		return s.end() // there is no such signal on this system
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

func (s *Server) stopSignal() os.Signal {
	if s.spec.StopSignal != nil {
		return s.spec.StopSignal
	}
	return os.Interrupt
}
