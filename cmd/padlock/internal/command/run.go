package command

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
)

const runLong = `run takes the lock NAME, runs COMMAND, and releases the lock when COMMAND and all
processes that it started have ended. It waits for the lock as long as necessary,
unless -n or -w is given. Flags stand before NAME.

When COMMAND ends and leaves processes running, they get --signal, and KILL after
--kill-after, before the lock is released; a message names them. --close leaves them
alone. If the lock is lost, or cannot be renewed in time, COMMAND is ended in the
same way, so that it never works without the lock. padlock passes signals that it
gets on to COMMAND.

Two padlock processes share the work: this one, and another that is the parent of
COMMAND. If either is killed, even by kill -9, the other ends COMMAND. If this one
hangs or is stopped (Ctrl-Z), COMMAND is still ended before the lease runs out.

The environment of COMMAND has PADLOCK_NAME, PADLOCK_FENCE (a number that grows with
each holder) and PADLOCK_STORE or PADLOCK_STORE_FILE; with --no-renewal also
PADLOCK_EXPIRES, in seconds since 1970. --pass-key adds PADLOCK_LOCK_KEY, the key of
the lock, for padlock adopt. A password in --store is passed on only with --pass-key.

With --slots N, up to N commands run at the same time; PADLOCK_SLOT is the number of
the slot, from 0 to N-1. With --weight K it takes K of them, and PADLOCK_SLOTS has all. A slot is not the lock NAME itself: run with --slots and run
without it do not exclude each other. With --also, padlock takes all the locks or
none, in the order of the alphabet; PADLOCK_FENCES has the fences of the other names,
as NAME2=FENCE&NAME3=FENCE. If one of the locks is lost, COMMAND is ended.

Messages go to standard error. With -q there is no message if COMMAND is not run
because the lock is held: cron sends mail for output, not for exit statuses.

SECONDS may have a fraction, or be written as 90s, 10m, 1h30m or 1d.

Exit status:
` + exitStatuses

const runExample = `  # a cron job that must not overlap itself, even if many machines start it at once
  padlock run -qn --at-least 30s nightly-report -- ./report.sh

  # wait at most a minute for a deploy that is under way
  padlock run -w 60 deploy -- ./deploy.sh production

  # many readers, one writer
  padlock run -s catalogue -- ./search.sh
  padlock run catalogue -- ./rebuild.sh

  # at most three encoders at the same time, on all machines together
  padlock run --slots 3 encoder -- ./encode.sh film.mkv

  # a job of 4 GB on machines that share 16
  padlock run --slots 16 --weight 4 memory -- ./encode.sh film.mkv

  # the folder src/server; src and src/server/http are locked, too, and src/client is free
  padlock run --path src/server -- ./build.sh

  # two locks at once, all or none
  padlock run --also stock orders -- ./rebuild.sh

  # end it as Ctrl-C does when it has run for an hour
  padlock run --at-most 1h --signal INT backup -- ./backup.sh

  # a job that is skipped counts as a success
  padlock run -n -E 0 nightly-report -- ./report.sh

  # a line for the shell, as with flock(1)
  padlock run nightly-report -c './report.sh | mail -s report root'`

func (a *app) runCommand() *cobra.Command {
	set := &runFlags{signal: signalFlag{syscall.SIGTERM}, conflict: exitHeld, lost: exitLost}
	c := &cobra.Command{
		Use:                   "run [FLAGS] NAME -- COMMAND [ARGUMENTS…]",
		Short:                 "Run a command while holding a lock",
		Long:                  runLong,
		Example:               runExample,
		ValidArgsFunction:     a.completeRun,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("label") {
				set.label = "" // the command's name is the default
			}
			return a.run(set, args)
		},
	}
	set.define(c)
	return c
}

// run executes the verb after its flags were parsed.
func (a *app) run(set *runFlags, args []string) error {
	name, command, err := splitArgs(args, &set.shell)
	if err == nil {
		err = a.urlAsName(name)
	}
	if err == nil && set.shell {
		command, err = shellCommand(command)
	}
	if err == nil {
		err = set.check()
	}
	if err != nil {
		return err
	}
	if set.label == "" {
		set.label = texts.Purpose(command[0])
	}
	path, err := exec.LookPath(command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) { // a dot in PATH shows that the user allows the current directory
		why := cannotRun(command[0], err) // this error comes before padlock waits for the lock
		(&front{app: a, set: set, name: name}).recordMissing(why)
		return why
	}
	f := &front{app: a, set: set, name: name, args: command, path: path, renewed: make(chan struct{}, 1), contended: make(chan string, 1)}
	return f.run()
}

// splitArgs splits the arguments into NAME and the command. As in flock(1), -c may come between
// them.
func splitArgs(args []string, shell *bool) (name string, command []string, err error) {
	const form = "padlock run [FLAGS] NAME -- COMMAND"
	switch {
	case len(args) == 0:
		return "", nil, usage("the name of the lock is missing: %s; see padlock run --help", form)
	case len(args) > 1 && args[1] == "--":
		command = args[2:]
	case len(args) > 1 && (args[1] == "-c" || args[1] == "--command"):
		*shell, command = true, args[2:]
	case len(args) > 1 && strings.HasPrefix(args[1], "-"):
		return "", nil, usage("%s stands after the name of the lock; put flags before the name: %s", args[1], form)
	default:
		command = args[1:]
	}
	if args[0] == "" {
		return "", nil, usage("the name of the lock is empty: %s", form)
	}
	if len(command) == 0 || command[0] == "" {
		return "", nil, usage("the command to run is missing: %s; see padlock run --help", form)
	}
	return args[0], command, nil
}

// shellCommand returns the command that runs a line in the user's shell, as flock(1) does.
func shellCommand(line []string) ([]string, error) {
	if len(line) != 1 {
		return nil, usage("-c takes one argument, a line for the shell, but there are %d; put the line in quotes", len(line))
	}
	shell := os.Getenv("SHELL")
	if shell == "" {
		shell = "/bin/sh"
	}
	return []string{shell, "-c", line[0]}, nil
}
