package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Spec describes how to start one kind of server. Name, Binary, Args and Ready
// are needed, the rest is optional.
type Spec struct {
	Name    string // how messages call it, "redis"
	Package string // the Debian package that brings Binary, for the message when it is missing

	// Binary lists candidates, the first that exists is started: a name to be
	// found in PATH, a path, or a pattern of a path ("/usr/lib/postgresql/*/bin/postgres",
	// of which the highest match counts).
	Binary []string

	// Args makes the command line, the program itself excluded. It is called
	// again for every start.
	Args func(Place) []string

	// Ready tells whether the server answers: nil when it does. It is asked
	// again and again until it agrees or Timeout has passed.
	Ready func(context.Context, Place) error

	// Prepare fills a data directory that is new: before the first start and
	// after Restart(false).
	Prepare func(context.Context, Place) error

	URL        func(Place) string // what Server.URL says; without it tcp://host:port
	Env        []string           // "KEY=value", added to the test's own environment
	RunAs      string             // a user to become when the test runs as root, which some servers refuse
	ExtraPorts int                // ports needed beside the first, as Place.Extra
	StopSignal os.Signal          // what asks for an orderly end; os.Interrupt when nil
	Timeout    time.Duration      // from start to ready; 30 s when zero
}

// Place is where one server lives. It stays the same over restarts.
type Place struct {
	Binary string // the program that was found
	Port   int    // on 127.0.0.1
	Extra  []int  // as many ports as Spec.ExtraPorts
	Dir    string // the data directory, short enough for a unix socket in it

	owner *owner   // who owns Dir and runs the server; nil: the test's user
	env   []string // of the server
	log   *os.File // where the server's output goes
}

// Addr is host:port.
func (p Place) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.Port) }

// Path is a file of the data directory.
func (p Place) Path(name string) string { return filepath.Join(p.Dir, name) }

// Write puts a file into the data directory, readable by the server only.
func (p Place) Write(name string, data []byte) error {
	path := p.Path(name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	return p.owner.own(path)
}

// Run runs a program to its end as the server's user, its output going to the
// server's log: for what Prepare has to do.
func (p Place) Run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = p.Dir, p.env
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = attributes(p.owner)
	if err := begin(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// find returns the first candidate that exists.
func (s Spec) find() (string, error) {
	for _, candidate := range s.Binary {
		if strings.ContainsAny(candidate, "*?[") {
			matches, err := filepath.Glob(candidate)
			if err != nil {
				return "", err
			}
			if len(matches) > 0 {
				sort.Strings(matches)
				return matches[len(matches)-1], nil
			}
			continue
		}
		if path, err := exec.LookPath(candidate); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("%s is not installed: no %s; Debian package %s has it, `make test` installs it when it may",
		s.Name, strings.Join(s.Binary, ", no "), s.Package)
}

func (s Spec) timeout() time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	return 30 * time.Second
}

func (s Spec) url(p Place) string {
	if s.URL == nil {
		return "tcp://" + p.Addr()
	}
	return s.URL(p)
}
