package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
	"github.com/padlock-go/padlock/cmd/padlock/internal/limits"
	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
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

  # end it as Ctrl-C does when it has run for an hour
  padlock run --at-most 1h --signal INT backup -- ./backup.sh

  # a job that is skipped counts as a success
  padlock run -n --skip-ok nightly-report -- ./report.sh

  # a line for the shell, as with flock(1)
  padlock run nightly-report -c './report.sh | mail -s report root'`

// runFlags holds the flags of run.
type runFlags struct {
	shared, nonblock, leave, verbose, noRenewal     bool
	shell, skipOK, unlock, noFork, passKey, quiet   bool
	wait, ttl, atLeast, coolDown, atMost, killAfter seconds
	conflict, lost                                  exitStatus
	signal                                          signalFlag
	label                                           string
	policy                                          policyFlag
}

func (a *app) runCommand() *cobra.Command {
	set := &runFlags{signal: signalFlag{syscall.SIGTERM}, conflict: exitHeld, lost: exitLost}
	c := &cobra.Command{
		Use:                   "run [FLAGS] NAME -- COMMAND [ARGUMENTS…]",
		Short:                 "Run a command while holding a lock",
		Long:                  runLong,
		Example:               runExample,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("label") {
				set.label = "" // the command's name will do
			}
			return a.run(set, args)
		},
	}
	set.define(c)
	return c
}

func (set *runFlags) define(c *cobra.Command) {
	f := c.Flags()
	f.SetInterspersed(false) // arguments after NAME are the command's
	f.SetNormalizeFunc(likeFlock)
	f.SortFlags = false
	set.defineWait(f)
	f.BoolVarP(&set.leave, "close", "o", false, "release as soon as COMMAND exits; do not kill background processes or wait for them")
	f.BoolVarP(&set.shell, "shell", "c", false, "COMMAND is one line for the shell, $SHELL or /bin/sh (or write -c LINE after NAME)")
	f.BoolVarP(&set.verbose, "verbose", "v", false, "report who holds the lock, how long the wait took, and the release")
	f.BoolVarP(&set.quiet, "quiet", "q", false, "print nothing if COMMAND is not run because the lock is held (losses and failures are printed)")
	f.Var(&set.ttl, "ttl", "lease length: how many `SECONDS` the lock outlives a dead padlock (default 30; files: 0)")
	f.Var(&set.atLeast, "at-least", "keep NAME locked for at least `SECONDS`, even if COMMAND ends earlier")
	f.Var(&set.coolDown, "cool-down", "keep NAME locked for `SECONDS` after COMMAND has ended")
	f.Var(&set.atMost, "at-most", "end COMMAND when it has run for `SECONDS`")
	f.Var(&set.killAfter, "kill-after", "send KILL `SECONDS` after --signal (default 10, or a third of --ttl)")
	f.Var(&set.signal, "signal", "the `SIGNAL` that asks COMMAND to end")
	f.BoolVar(&set.noRenewal, "no-renewal", false, "do not renew; stop COMMAND before --ttl ends")
	f.BoolVar(&set.passKey, "pass-key", false, "pass the key of the lock (PADLOCK_LOCK_KEY) and the password in --store to COMMAND")
	f.Var(&set.lost, "lost-exit-code", "exit status `N` when the lock is lost")
	f.StringVar(&set.label, "label", "", "show `TEXT` to others as the purpose of the lock (default COMMAND; also --holder)")
	for name, variable := range map[string]*bool{"unlock": &set.unlock, "no-fork": &set.noFork} {
		f.BoolVarP(variable, name, map[string]string{"unlock": "u", "no-fork": "F"}[name], false, "")
		f.Lookup(name).Hidden = true // flags of flock(1) that run refuses
	}
}

// defineWait defines the flags that say how the lock is taken.
func (set *runFlags) defineWait(f *pflag.FlagSet) {
	f.VarPF(choice{&set.shared, true}, "shared", "s", "share the lock with other --shared ones").NoOptDefVal = "true"
	f.VarPF(choice{&set.shared, false}, "exclusive", "x", "do not share it (default; also -e)").NoOptDefVal = "true"
	e := f.VarPF(choice{&set.shared, false}, "exclusive-lock", "e", "")
	e.NoOptDefVal, e.Hidden = "true", true
	f.BoolVarP(&set.nonblock, "nonblock", "n", false, "do not wait (also --nb, --nonblocking)")
	f.VarP(&set.wait, "wait", "w", "wait at most `SECONDS`; 0 is -n (also --timeout)")
	f.Var(&set.policy, "wait-policy", "`POLICY` skip: do not wait if the holder's --at-most ends after --wait (default wait)")
	f.VarP(&set.conflict, "conflict-exit-code", "E", "exit status `N` when the lock is held or not free in time")
	f.BoolVar(&set.skipOK, "skip-ok", false, "the same as -E 0: a job that is skipped counts as a success")
}

// run is the verb, once its flags are read.
func (a *app) run(set *runFlags, args []string) error {
	name, command, err := splitArgs(args, &set.shell)
	if err == nil && set.shell {
		command, err = shellCommand(command)
	}
	if err == nil {
		err = set.check()
	}
	if err != nil {
		return err
	}
	path, err := job.Find(command[0])
	if err != nil {
		return cannotRun(command[0], err) // before the lock is taken
	}
	if set.label == "" {
		set.label = command[0][:min(len(command[0]), 256)]
	}
	f := &front{app: a, set: set, name: name, args: command, path: path, renewed: make(chan struct{}, 1), contended: make(chan struct{}, 1)}
	f.progress = newProgress(a, name, set)
	return f.run()
}

// splitArgs takes NAME, --, and the command apart. In flock(1)'s manner -c may
// stand between them.
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
	if len(command) == 0 || command[0] == "" {
		return "", nil, usage("the command to run is missing: %s; see padlock run --help", form)
	}
	return args[0], command, nil
}

// shellCommand has the user's shell run a line, as flock(1) does.
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

func (set *runFlags) check() error {
	switch {
	case set.nonblock && set.wait.given && set.wait.d > 0:
		return usage("-n and -w %v contradict each other; use one of them", set.wait.d)
	case set.skipOK && set.conflict != exitHeld && set.conflict != 0:
		return usage("--skip-ok means -E 0 and contradicts -E %d", set.conflict)
	case set.atMost.given && set.atMost.d == 0:
		return usage("--at-most 0: the command would not run at all")
	case set.policy == policySkip && !set.wait.given && !set.nonblock:
		return usage("--wait-policy skip needs --wait")
	case set.quiet && set.verbose:
		return usage("-q and -v contradict each other")
	case set.unlock:
		return usage("-u: run releases its lock when the command has ended; padlock release releases a lock of padlock acquire")
	case set.noFork:
		return usage("-F: padlock stays with the command, to end it if the lock is lost; padlock flock -F does not")
	}
	if set.skipOK {
		set.conflict = 0
	}
	return nil
}

// options are the flags as options of Acquire.
func (set *runFlags) options(grace time.Duration) []padlock.Option {
	opts := []padlock.Option{padlock.Label(set.label), padlock.HoldAtLeast(set.atLeast.d)}
	if set.shared {
		opts = append(opts, padlock.Shared())
	}
	switch {
	case set.nonblock:
		opts = append(opts, padlock.Wait(0))
	case set.wait.given:
		opts = append(opts, padlock.Wait(set.wait.d))
	}
	if set.ttl.given {
		opts = append(opts, padlock.TTL(set.ttl.d))
	}
	if set.noRenewal {
		opts = append(opts, padlock.NoRenewal())
	}
	if set.policy == policySkip {
		opts = append(opts, padlock.SkipIfOutlived())
	}
	if set.coolDown.d > 0 {
		opts = append(opts, padlock.CoolDown(set.coolDown.d))
	}
	if set.atMost.given {
		// The command may use its grace; the lock must last until it is killed.
		opts = append(opts, padlock.MaxHold(set.atMost.d+grace+time.Second))
	}
	return opts
}

// grace is the time from --signal to KILL.
func (set *runFlags) grace(l *padlock.Locker) (time.Duration, error) {
	ttl := padlock.DefaultTTL
	if set.ttl.given {
		ttl = set.ttl.d
	}
	switch {
	case !set.killAfter.given:
		return min(10*time.Second, ttl/3), nil
	case l.Guarantees().Lease && set.killAfter.d >= ttl/2:
		return 0, usage("--kill-after %v must be less than half of --ttl, %v: the command is ended that long before the lease ends", set.killAfter.d, ttl)
	}
	return set.killAfter.d, nil
}

// shellHint helps if a whole line was passed as the command.
func shellHint(command string) string {
	if !strings.ContainsAny(command, " |;&") {
		return ""
	}
	return " (for a line of the shell write padlock run NAME -c LINE)"
}

// cannotRun is the failure to find or start a command.
func cannotRun(command string, err error) *failure {
	switch {
	case errors.Is(err, limits.ErrThreads), errors.Is(err, syscall.EAGAIN):
		return fail(exitSystem, "system", "", "%s was not run: %v", show(command), limits.ErrThreads)
	case errors.Is(err, supervise.ErrStart), errors.Is(err, syscall.ENOMEM):
		return fail(exitSystem, "system", "", "%s was not run: %v", show(command), err)
	case errors.Is(err, fs.ErrNotExist) && filepath.Base(command) == command:
		return fail(exitNotFound, "command", "", "%s: command not found; command not run%s", show(command), shellHint(command))
	case errors.Is(err, fs.ErrNotExist):
		// A script without its interpreter gives the same error.
		return fail(exitNotFound, "command", "", "%s: no such file, or its interpreter is missing; command not run", show(command))
	case errors.Is(err, fs.ErrPermission):
		return fail(exitCannotRun, "command", "", "%s cannot be executed; command not run (a script needs chmod +x)", show(command))
	}
	return fail(exitCannotRun, "command", "", "%s cannot be executed: %v; command not run", show(command), err)
}
