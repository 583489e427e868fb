package command

import (
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/padlock-go/padlock"
)

// envRecord is the variable that stands for --record.
const envRecord = "PADLOCK_RECORD"

// recordsAll reports whether a value of envRecord asks for records. Every value does, except 0,
// false and an empty value. An unwanted record does no harm, but a missing one is noticed too late.
func recordsAll(value string) bool {
	on, err := strconv.ParseBool(value)
	return value != "" && (on || err != nil)
}

// runFlags holds the flags of run.
type runFlags struct {
	shared, nonblock, leave, verbose, noRenewal     bool
	shell, passKey, quiet, record, newest, path     bool
	wait, ttl, atLeast, coolDown, atMost, killAfter seconds
	conflict, lost                                  exitStatus
	signal, onAsk                                   signalFlag
	label                                           string
	slots, weight                                   slotCount
	also                                            []string
	policy                                          policyFlag
}

func (set *runFlags) define(c *cobra.Command) {
	f := c.Flags()
	f.SetInterspersed(false) // all arguments after NAME belong to the command
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
	f.Var(&set.onAsk, "on-ask", "send `SIGNAL` to COMMAND when somebody asks it to finish early (padlock ask)")
	f.BoolVar(&set.noRenewal, "no-renewal", false, "do not renew the lease; stop COMMAND before it ends (no effect on files, which have no lease)")
	f.BoolVar(&set.passKey, "pass-key", false, "pass the key of the lock (PADLOCK_LOCK_KEY) and the password in --store to COMMAND")
	f.Var(&set.lost, "lost-exit-code", "exit status `N` when the lock is lost")
	f.BoolVar(&set.record, "record", recordsAll(os.Getenv(envRecord)), "keep the start and the end of this run for padlock history (or set PADLOCK_RECORD=1)")
	f.StringVar(&set.label, "label", "", "show `TEXT` to others as the purpose of the lock (default COMMAND; also --holder)")
}

// defineWait defines the flags that control how the lock is taken.
func (set *runFlags) defineWait(f *pflag.FlagSet) {
	f.VarPF(choice{&set.shared, true}, "shared", "s", "share the lock with other --shared ones").NoOptDefVal = "true"
	f.VarPF(choice{&set.shared, false}, "exclusive", "x", "do not share it (default; also -e)").NoOptDefVal = "true"
	e := f.VarPF(choice{&set.shared, false}, "exclusive-lock", "e", "")
	e.NoOptDefVal, e.Hidden = "true", true
	f.BoolVarP(&set.nonblock, "nonblock", "n", false, "do not wait (also --nb, --nonblocking)")
	f.VarP(&set.wait, "wait", "w", "wait at most `SECONDS`; 0 is -n (also --timeout)")
	f.Var(&set.policy, "wait-policy", "`POLICY` skip: do not wait if the holder's --at-most ends after --wait (default wait)")
	f.VarP(&set.conflict, "conflict-exit-code", "E", "exit status `N` when the lock is held or not free in time")
	f.BoolVar(&set.newest, "newest", false, "the newest run comes first: ask the holder to finish early (--on-ask), and drop older runs that wait")
	f.Var(&set.slots, "slots", "let `N` commands run at the same time; each holds one of N slots of NAME")
	f.Var(&set.weight, "weight", "take `K` of the N slots, all or none: for work of different sizes")
	f.BoolVar(&set.path, "path", false, "NAME is a path, as src/server: exclude the paths in it and the folders above it")
	f.StringArrayVar(&set.also, "also", nil, "take the lock `NAME2` as well: all locks or none (may be repeated)")
}

func (set *runFlags) check() error {
	switch {
	case set.nonblock && set.wait.given && set.wait.d > 0:
		return usage("-n and -w %v contradict each other; use one of them", set.wait.d)
	case set.atMost.given && set.atMost.d == 0:
		return usage("--at-most 0: the command would not run at all")
	case set.policy == policySkip && !set.wait.given && !set.nonblock:
		return usage("--wait-policy skip needs --wait")
	case set.quiet && set.verbose:
		return usage("-q and -v contradict each other")
	case set.slots > 0 && set.shared:
		return usage("--slots and -s contradict each other: a slot has one holder")
	case set.newest && (set.slots > 0 || set.shared || set.nonblock || len(set.also) > 0 || set.path):
		return usage("--newest is for one lock that is waited for: leave out --slots, -s, -n, --also and --path")
	case set.path && (set.slots > 0 || set.shared || set.atLeast.d > 0 || set.coolDown.d > 0 || set.passKey):
		return usage("--path cannot be combined with --slots, -s, --at-least, --cool-down and --pass-key")
	case set.slots > 0 && set.onAsk.sig != 0:
		return usage("--slots and --on-ask cannot be combined: a slot cannot be asked")
	case set.weight > set.slots:
		return usage("--weight must be 1 to the number of --slots")
	case set.weight > 0 && set.passKey:
		return usage("--pass-key passes one lock, so it cannot be combined with --weight")
	case set.slots > 0 && len(set.also) > 0:
		return usage("--slots and --also cannot be combined")
	case slices.Contains(set.also, ""):
		return usage("--also: the name of the lock is empty")
	case set.passKey && len(set.also) > 0:
		return usage("--pass-key passes one lock, so it cannot be combined with --also")
	}
	return nil
}

// options returns the flags as options of Acquire.
func (set *runFlags) options(grace time.Duration) []padlock.Option {
	opts := acquireOptions(set.label, set.shared, set.nonblock, set.wait, set.ttl, set.atLeast)
	if set.slots > 0 {
		opts = append(opts, padlock.Slots(int(set.slots)))
	}
	if set.weight > 0 {
		opts = append(opts, padlock.Weight(int(set.weight)))
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
		// The lock must last until the command is killed, which may happen only at the end of the
		// grace.
		opts = append(opts, padlock.HoldAtMost(set.atMost.d+grace+time.Second))
	}
	return opts
}

// grace returns the time between --signal and KILL.
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
