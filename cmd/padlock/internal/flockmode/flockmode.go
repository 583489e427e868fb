// Package flockmode implements flock(1): its command line, its exit statuses and its locks. These
// locks are those of flock(2), not padlock's. The package opens and locks files and never writes to
// them. If the command leaves processes running, padlock does not end them. They keep the lock as
// long as they have the file open.
package flockmode

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Exit statuses. They are those of sysexits.h.
const (
	exitConflict    = 1
	exitUsage       = 64
	exitData        = 65 // the file cannot be locked
	exitNoInput     = 66 // the file cannot be opened
	exitUnavailable = 69 // the command cannot be run
	exitSystem      = 71
	exitCreate      = 73 // the file cannot be created
)

// Program is one run of flock(1).
type Program struct {
	Name           string // the name by which it was called
	Version        string
	Stdout, Stderr io.Writer
}

// Run runs the program with the arguments and returns the exit status. With -F it does not return,
// because the command replaces this process.
func (p *Program) Run(args []string) int {
	status, err := p.run(args)
	var f *failure
	if errors.As(err, &f) {
		if f.text != "" {
			fmt.Fprintf(p.Stderr, "%s: %s\n", p.Name, f.text)
		}
		if f.hint {
			fmt.Fprintf(p.Stderr, "Try '%s --help' for more information.\n", p.Name)
		}
		return f.status
	}
	return status
}

func (p *Program) run(args []string) (int, error) {
	o, err := parse(args)
	switch {
	case err != nil:
		return 0, err
	case o.help:
		fmt.Fprintf(p.Stdout, usage, p.Name)
		return 0, nil
	case o.version:
		fmt.Fprintf(p.Stdout, "%s (padlock %s)\n", p.Name, p.Version)
		return 0, nil
	}
	begin := time.Now()
	l, err := o.open()
	if err != nil {
		return 0, err
	}
	if err := l.take(o); err != nil {
		return 0, err
	}
	if o.verbose {
		fmt.Fprintf(p.Stdout, "%s: getting lock took %.6f seconds\n", p.Name, time.Since(begin).Seconds())
	}
	if len(o.command) == 0 {
		return 0, nil
	}
	if o.verbose {
		fmt.Fprintf(p.Stdout, "%s: executing %s\n", p.Name, o.command[0])
	}
	return l.runCommand(o)
}

const usage = `Usage: %[1]s [OPTIONS] FILE|DIRECTORY COMMAND [ARGUMENTS…]
       %[1]s [OPTIONS] FILE|DIRECTORY -c LINE
       %[1]s [OPTIONS] DESCRIPTOR

Lock a file or a directory while a command runs, or lock a file that the shell has
open under a number until the shell closes it. This is padlock working like flock(1).

  -s, --shared                  share the lock with other shared ones
  -x, -e, --exclusive           do not share the lock (default)
  -u, --unlock                  release the lock
  -n, --nb, --nonblock          do not wait
  -w, --wait, --timeout SECS    wait at most SECS, fractions allowed
  -E, --conflict-exit-code N    exit status if the lock is held or not free in time (1)
  -o, --close                   close the file first, so that COMMAND does not hold the lock
  -F, --no-fork                 become COMMAND instead of waiting for it
  -c, --command LINE            run LINE by $SHELL, or /bin/sh
      --verbose                 print how long the wait took
  -h, --help                    show this help
  -V, --version                 print the version

Exit status: that of COMMAND; 128+N if signal N killed it; 1 locked by others (-E);
64 wrong usage; 65 FILE cannot be locked; 66 FILE cannot be opened; 69 COMMAND cannot
be run; 71 the system failed; 73 FILE cannot be created.
`
