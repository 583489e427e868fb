package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
)

const runLong = `run takes the lock NAME, runs COMMAND, and gives the lock back when COMMAND and
all that it started have ended. It waits for the lock as long as it takes, unless
-n or -w is given. Flags stand before NAME.

When COMMAND has ended, what it left running is sent --signal, and KILL after
--kill-after, before the lock is given back; with --close that is left alone. If
the lock is lost, or can no longer be renewed in time, COMMAND is ended in the
same way: nothing works on without the lock. Signals sent to padlock go on to
COMMAND.

COMMAND finds in its environment PADLOCK_NAME, PADLOCK_STORE and PADLOCK_FENCE, a
number that grows with each holder; where a lock can be handed over, PADLOCK_TOKEN,
a secret; and without renewal PADLOCK_EXPIRES, in seconds since 1970.

SECONDS may have a fraction, or be written as 90s, 10m or 1h30m.

Exit status:
` + exitStatuses

const runExample = `  # a cron job that must not overlap itself, though it is started many times at once
  padlock run -n --at-least 30s nightly-report -- ./report.sh

  # wait at most a minute for a deploy that is under way
  padlock run -w 60 deploy -- ./deploy.sh production

  # many readers, one writer
  padlock run -s catalogue -- ./search.sh
  padlock run catalogue -- ./rebuild.sh

  # not longer than an hour, and ended as by Ctrl-C
  padlock run --at-most 1h --signal INT backup -- ./backup.sh

  # a job that is skipped is no failure
  padlock run -n -E 0 nightly-report -- ./report.sh`

// runFlags is what the flags of run say.
type runFlags struct {
	shared, nonblock, leave, verbose, noRenewal bool
	wait, ttl, atLeast, atMost, killAfter       seconds
	conflict                                    int
	signal                                      signalFlag
	label                                       string
}

func (a *app) runCommand() *cobra.Command {
	set := &runFlags{signal: signalFlag{syscall.SIGTERM}}
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
	f.SetInterspersed(false) // what stands after NAME is the command's
	f.SetNormalizeFunc(likeFlock)
	f.SortFlags = false
	f.VarPF(choice{&set.shared, true}, "shared", "s", "share the lock with other --shared ones").NoOptDefVal = "true"
	f.VarPF(choice{&set.shared, false}, "exclusive", "x", "share it with nobody (default)").NoOptDefVal = "true"
	f.BoolVarP(&set.nonblock, "nonblock", "n", false, "do not wait (also --nb, --nonblocking)")
	f.VarP(&set.wait, "wait", "w", "wait at most `SECONDS`; 0 is -n (also --timeout)")
	f.IntVarP(&set.conflict, "conflict-exit-code", "E", exitHeld, "exit status `N` when the lock is held or not free in time")
	f.BoolVarP(&set.leave, "close", "o", false, "leave alone what COMMAND leaves running, and let it not keep the lock")
	f.BoolVar(&set.verbose, "verbose", false, "tell whom the lock is waited for, how long that took, and when it is given back")
	f.Var(&set.ttl, "ttl", "if padlock dies, others get the lock after `SECONDS` (default 30; files: at once)")
	f.Var(&set.atLeast, "at-least", "keep NAME taken for at least `SECONDS`, also if COMMAND ends before")
	f.Var(&set.atMost, "at-most", "end COMMAND after `SECONDS`")
	f.Var(&set.killAfter, "kill-after", "from --signal to KILL let `SECONDS` pass (default 10, or a third of --ttl)")
	f.Var(&set.signal, "signal", "the `SIGNAL` that ends COMMAND")
	f.BoolVar(&set.noRenewal, "no-renewal", false, "let the lock run out after --ttl, and end COMMAND before")
	f.StringVar(&set.label, "label", "", "tell others that `TEXT` is what the lock is held for (default COMMAND)")
}

// run is the verb, once its flags are read.
func (a *app) run(set *runFlags, args []string) error {
	name, command, err := splitArgs(args)
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
	f := &front{app: a, set: set, name: name, args: command, path: path, renewed: make(chan struct{}, 1)}
	return f.run()
}

// splitArgs takes NAME, --, and the command apart.
func splitArgs(args []string) (name string, command []string, err error) {
	const form = "padlock run [FLAGS] NAME -- COMMAND"
	switch {
	case len(args) == 0:
		return "", nil, usage("the name of the lock is missing: %s; see padlock run --help", form)
	case len(args) > 1 && args[1] == "--":
		command = args[2:]
	case len(args) > 1 && strings.HasPrefix(args[1], "-"):
		return "", nil, usage("%s stands after the name of the lock; flags stand before it: %s", args[1], form)
	default:
		command = args[1:]
	}
	if len(command) == 0 || command[0] == "" {
		return "", nil, usage("the command to run is missing: %s; see padlock run --help", form)
	}
	return args[0], command, nil
}

func (set *runFlags) check() error {
	switch {
	case set.conflict < 0 || set.conflict > 255:
		return usage("--conflict-exit-code %d: an exit status is from 0 to 255", set.conflict)
	case set.atMost.given && set.atMost.d == 0:
		return usage("--at-most 0: the command would not run at all")
	}
	return nil
}

// options are what the flags say to the face.
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
		return 0, usage("--kill-after %v: it has to be less than half of --ttl, which is %v: the command is ended that long before the lock runs out", set.killAfter.d, ttl)
	}
	return set.killAfter.d, nil
}

// cannotRun is the failure to find or start a command.
func cannotRun(command string, err error) *failure {
	switch {
	case errors.Is(err, supervise.ErrStart):
		return fail(exitSystem, "system", "", "%v: %v; nothing was run", show(command), err)
	case errors.Is(err, fs.ErrNotExist) && filepath.Base(command) == command:
		return fail(exitNotFound, "command", "", "%s: command not found; nothing was run", show(command))
	case errors.Is(err, fs.ErrNotExist):
		// Of a script also if what its first line names is missing.
		return fail(exitNotFound, "command", "", "%s: no such file, or its interpreter is missing; nothing was run", show(command))
	case errors.Is(err, fs.ErrPermission):
		return fail(exitCannotRun, "command", "", "%s cannot be executed; nothing was run (a script needs chmod +x)", show(command))
	}
	return fail(exitCannotRun, "command", "", "%s cannot be executed: %v; nothing was run", show(command), err)
}
