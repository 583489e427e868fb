package command

import (
	"context"

	"github.com/spf13/cobra"
)

const acquireLong = `acquire takes the lock NAME, prints its key, and exits. The lock stays held for
--ttl. With the key, padlock extend prolongs the lock, padlock release releases it,
and padlock adopt takes it over. When --ttl has passed, others can take the lock,
and nothing stops your work: if the work fits into one command, padlock run is
safer, because it renews the lock and ends the command when the lock is lost.

In a directory of files, such a lock is kept by padlock run and all other verbs, but
flock(1) and PHP do not see it; the answer of --json lists them as "unseen_by". It ends
when the machine restarts.

With --path, NAME is a path such as src/server: the lock excludes the locks with --path on
that path, on every folder above it and on everything below it. One key stands for all.

The key is a secret: it is all that is needed to release the lock. It goes to
standard output or, with --key-file, into a file that only you can read. That file is
new, or holds an old key, which is replaced: a lock of that key can then only be broken,
or ends with its lease. No other file is replaced.

Exit status:
` + verbStatuses

const acquireExample = `  key=$(padlock acquire -n --ttl 50s deploy) || exit
  ./build.sh
  printf %s "$key" | padlock extend --ttl 50s || exit    # 79: the lock is lost
  ./deploy.sh
  printf %s "$key" | padlock release

  padlock acquire -w 60 --key-file deploy.key deploy
  padlock acquire -n --path --key-file server.key src/server`

func (a *app) acquireCommand() *cobra.Command {
	set := &acquireFlags{conflict: exitHeld}
	c := &cobra.Command{
		Use:                   "acquire [FLAGS] NAME",
		Short:                 "Take a lock, print its key, and exit",
		Long:                  acquireLong,
		Example:               acquireExample,
		DisableFlagsInUseLine: true,
		Args:                  oneName,
		ValidArgsFunction:     a.completeName,
		RunE:                  func(c *cobra.Command, args []string) error { return a.acquire(c.Context(), set, args[0]) },
	}
	f := c.Flags()
	f.SetNormalizeFunc(likeFlock)
	f.SortFlags = false
	f.VarPF(choice{&set.shared, true}, "shared", "s", "share the lock with other --shared ones").NoOptDefVal = "true"
	f.VarPF(choice{&set.shared, false}, "exclusive", "x", "do not share it (default)").NoOptDefVal = "true"
	f.BoolVarP(&set.nonblock, "nonblock", "n", false, "do not wait (also --nb, --nonblocking)")
	f.VarP(&set.wait, "wait", "w", "wait at most `SECONDS`; 0 is -n (also --timeout)")
	f.VarP(&set.conflict, "conflict-exit-code", "E", "exit status `N` when the lock is held or not free in time")
	f.Var(&set.ttl, "ttl", "hold the lock for `SECONDS` (default 30)")
	f.Var(&set.atLeast, "at-least", "keep NAME locked for at least `SECONDS`, unless it is released")
	f.BoolVar(&set.path, "path", false, "NAME is a path: exclude the paths in it and the folders above it")
	f.StringVar(&set.label, "label", "padlock acquire", "show `TEXT` to others as the purpose of the lock")
	keyFlag(c, &set.keyFile, "write the key to `FILE`, readable by you only, instead of standard output")
	return c
}

func (a *app) acquire(ctx context.Context, set *acquireFlags, name string) error {
	if set.nonblock && set.wait.given && set.wait.d > 0 {
		return usage("-n and -w %s contradict each other; use one of them", span(set.wait.d))
	}
	if set.path && (set.shared || set.atLeast.d > 0) {
		return usage("--path cannot be combined with -s and --at-least")
	}
	if err := a.urlAsName(name); err != nil {
		return err
	}
	l, err := a.lasting(ctx, "acquire", name)
	if err != nil {
		return err
	}
	defer a.close(l)
	room := keyRoom
	if set.path {
		room = maxKey
	}
	place, err := newKeyPlace(set.keyFile, room)
	if err != nil {
		return err
	}
	defer place.drop()
	ctx, stop := interruptible(ctx)
	locks, err := set.take(ctx, l, name)
	if s := stop(); s != nil {
		_ = releaseEach(locks) // if that fails, the lease runs out
		return interruptedBy(s, name)
	}
	if err != nil {
		return a.notTaken(set, lockOfError(err, name), err)
	}
	return a.handOver(l, locks, place)
}
