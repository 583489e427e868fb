package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a server that was started for one test. Its methods are safe for concurrent use.
// Methods that change the server run one after another, and an error in them ends the test.
type Server struct {
	t      testing.TB
	spec   Spec
	place  Place
	root   string // contains the data directory and the log
	shared bool   // other tests use it, too, so no test may change it

	mu   sync.Mutex
	proc *process
}

// Start starts a server and returns when it is ready. t.Cleanup ends it and removes its files. If
// the test has failed by then, the server's output is added to the test's log.
func Start(t testing.TB, spec Spec) *Server {
	t.Helper()
	binary, err := spec.find()
	if err != nil {
		missing(t, err)
		return nil
	}
	s := &Server{t: t, spec: spec}
	t.Cleanup(s.clean)
	if err := s.begin(binary); err != nil {
		t.Fatalf("%s does not start: %v", spec.Name, err)
	}
	return s
}

// missing skips the test because a program is not installed. In CI it fails the test, because no
// test may be skipped there.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
		return
	}
	t.Skip(err)
}

// begin makes a place and starts the server in it.
func (s *Server) begin(binary string) error {
	if err := s.settle(binary); err != nil {
		return err
	}
	if err := s.emptyData(); err != nil {
		return err
	}
	return s.start()
}

// settle chooses ports and makes the directories. The directories are not under t.TempDir for two
// reasons. Other users cannot read t.TempDir, and the server may run as another user. And if the
// test has a long name, paths under t.TempDir are too long for a unix socket.
func (s *Server) settle(binary string) error {
	root, err := os.MkdirTemp(s.spec.Within, "padlock-"+s.spec.Name+"-")
	if err != nil {
		return err
	}
	s.root = root
	s.place = Place{Binary: binary, Dir: filepath.Join(root, "data")}
	s.place.env = append(os.Environ(), s.spec.Env...)
	if s.place.owner, err = lookupOwner(s.spec.RunAs); err != nil {
		return err
	}
	if err := s.place.owner.giveFile(root); err != nil {
		return err
	}
	if s.place.log, err = os.OpenFile(filepath.Join(root, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	return s.reservePorts()
}

func (s *Server) reservePorts() error {
	for i := range 1 + s.spec.ExtraPorts {
		r, err := reserve()
		if err != nil {
			return err
		}
		s.t.Cleanup(func() { _ = r.release() }) // an error here does no harm
		if i == 0 {
			s.place.Port = r.port
		} else {
			s.place.Extra = append(s.place.Extra, r.port)
		}
	}
	return nil
}

// emptyData removes the data directory and makes it again.
func (s *Server) emptyData() error {
	s.removeRemains()
	if err := os.RemoveAll(s.place.Dir); err != nil {
		return err
	}
	if err := os.Mkdir(s.place.Dir, 0o700); err != nil {
		return err
	}
	if err := s.place.owner.giveFile(s.place.Dir); err != nil {
		return err
	}
	if s.spec.Prepare == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.spec.timeout())
	defer cancel()
	if err := s.spec.Prepare(ctx, s.place); err != nil {
		return fmt.Errorf("preparing the data directory: %w\n%s", err, s.Log())
	}
	return nil
}

// start launches the process and waits until it is ready.
func (s *Server) start() error {
	proc, err := launch(s.place, s.spec.Args(s.place))
	if err != nil {
		return err
	}
	s.proc = proc
	if err := s.await(proc); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Log())
	}
	return nil
}

// await calls Ready until the server is ready.
func (s *Server) await(proc *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.spec.timeout())
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.spec.Ready(ctx, s.place)
		if proc.hasEnded() {
			return fmt.Errorf("it ended before it was ready (%v)", proc.cmd.ProcessState)
		}
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-proc.done:
		case <-ctx.Done():
			return fmt.Errorf("not ready within %v: %w", s.spec.timeout(), err)
		}
	}
}

// clean ends the server and removes its files.
func (s *Server) clean() {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.proc.state()
	if err := s.end(); err != nil {
		s.t.Errorf("%s does not end: %v", s.spec.Name, err)
	}
	if s.t.Failed() {
		s.t.Logf("%s, which %s, said:\n%s", s.spec.Name, state, lastLines(s.Log()))
	}
	if s.place.log != nil {
		_ = s.place.log.Close() // only the server has written to it
	}
	if s.root == "" {
		return
	}
	s.removeRemains()
	if err := os.RemoveAll(s.root); err != nil {
		s.t.Errorf("what %s wrote stays behind: %v", s.spec.Name, err)
	}
}

// lastLines returns the end of a server's log. A whole log of many lines would push the failure of
// the test itself out of the log of CI.
func lastLines(log string) string {
	lines := strings.SplitAfter(log, "\n")
	if before := len(lines) - 21; before > 0 {
		return fmt.Sprintf("(%d lines before)\n%s", before, strings.Join(lines[before:], ""))
	}
	return log
}

func (s *Server) removeRemains() {
	if s.spec.Remains != nil {
		s.spec.Remains(s.place)
	}
}

// end kills the process and waits until it is gone.
func (s *Server) end() error {
	if s.proc.hasEnded() {
		return nil
	}
	if err := s.proc.kill(); err != nil && !s.proc.hasEnded() {
		return err
	}
	<-s.proc.done
	return nil
}

// Log returns everything that the server has written to its standard output and error so far, over
// all restarts.
func (s *Server) Log() string {
	data, err := os.ReadFile(s.place.log.Name())
	if err != nil {
		return "no log: " + err.Error()
	}
	return string(data)
}
