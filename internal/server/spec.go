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

// Spec describes how to start one kind of server. Name, Binary, Args and Ready are required.
type Spec struct {
	Name    string // the name in messages, such as "redis"
	Package string // the Debian package that contains Binary; the message for a missing Binary names it

	// Binary lists candidates; the first one that exists is started. A candidate is a name in PATH,
	// a path, or a pattern such as "/usr/lib/postgresql/*/bin/postgres". If several paths match a
	// pattern, the last one in alphabetical order is used.
	Binary []string

	// Args returns the command line without the program. It is called before every start.
	Args func(Place) []string

	// Ready returns nil if the server is ready. It is called until it returns nil or Timeout has
	// passed.
	Ready func(context.Context, Place) error

	// Prepare fills a new data directory. It is called before the first start and after
	// Restart(false).
	Prepare func(context.Context, Place) error

	// Remains removes what a killed server leaves outside of its data directory. It is called
	// before the directory is removed. Nil if the server leaves nothing.
	Remains func(Place)

	URL        func(Place) string // returns the result of Server.URL; if URL is nil, the result is tcp://HOST:PORT
	Within     string             // the data directory is made in this directory; if empty, in the directory for temporary files
	Env        []string           // "KEY=value", added to the test's own environment
	RunAs      string             // the server runs as this user if the test runs as root; some servers refuse to run as root
	ExtraPorts int                // number of ports in addition to the first; see Place.Extra
	Timeout    time.Duration      // maximum time from start to ready; a minute if zero
}

// Place says where one server runs. It stays the same over restarts.
type Place struct {
	Binary string // path of the program
	Port   int    // on 127.0.0.1
	Extra  []int  // as many ports as Spec.ExtraPorts says
	Dir    string // the data directory, short enough for a unix socket in it

	owner *owner   // owner of Dir; the server runs as this user; nil means the test's user
	env   []string // environment of the server
	log   *os.File // the file with the server's output
}

// Addr returns HOST:PORT.
func (p Place) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.Port) }

// Path returns the path of a file in the data directory.
func (p Place) Path(name string) string { return filepath.Join(p.Dir, name) }

// Write writes a file into the data directory. The file can only be read by the server.
func (p Place) Write(name string, data []byte) error {
	path := p.Path(name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	return p.owner.giveFile(path)
}

// Run runs a program as the server's user and returns when it has ended. Its output goes to the
// server's log. Prepare uses it.
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
	return "", fmt.Errorf("%s is not installed: no %s; Debian package %s has it, and `SETUP=yes make test` installs it",
		s.Name, strings.Join(s.Binary, ", no "), s.Package)
}

func (s Spec) timeout() time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	return time.Minute // a busy machine needs half of it to start Java
}

func (s Spec) url(p Place) string {
	if s.URL == nil {
		return "tcp://" + p.Addr()
	}
	return s.URL(p)
}
