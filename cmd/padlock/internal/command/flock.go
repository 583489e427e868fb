package command

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock/cmd/padlock/internal/flockmode"
)

const flockLong = `flock works like flock(1): it has the same command line and exit statuses. It locks
the file or directory FILE while COMMAND runs, or an open file of the shell by its
number; it never writes to the file. A link to padlock with the name flock does the
same.

These are the kernel's locks on files, which every program that uses flock(2)
shares. They are not padlock's locks: they have no names, no holders, no fences and
no leases. Processes that COMMAND leaves running keep the lock. If padlock is killed,
COMMAND continues, and keeps the lock unless it has closed the file.

"padlock flock --help" lists the options.`

// flockCommand is the verb for flock mode.
func (a *app) flockCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "flock [OPTIONS] FILE COMMAND [ARGUMENTS…]",
		Short: "Work like flock(1)",
		Long:  flockLong,
		Example: `  padlock flock -n /run/lock/report.lock ./report.sh
  (padlock flock 9; ./report.sh) 9>/run/lock/report.lock
  ln -s "$(command -v padlock)" ~/bin/flock`,
		DisableFlagsInUseLine: true,
		DisableFlagParsing:    true, // flock mode parses its own flags
		ValidArgsFunction:     completeFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			a.status = a.flock("padlock flock", args)
			return nil
		},
	}
}

func (a *app) flock(name string, args []string) int {
	p := &flockmode.Program{Name: name, Version: build().Version, Stdout: a.stdout, Stderr: a.stderr}
	return p.Run(args)
}

// calledFlock reports whether this program was started under the name flock.
func calledFlock() bool { return filepath.Base(os.Args[0]) == "flock" }
