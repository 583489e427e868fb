package command

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

const releaseLong = `release releases a lock by its key. Exit status 79 means that the lock was lost
earlier: somebody else may have worked under it at the same time as you. The file of
--key-file stays, because the next holder may have put its key there. If release cannot
tell whether the lock was released, you can call it again.

` + keyHelp + `

Exit status:
` + verbStatuses

// released is what release prints in JSON.
type released struct {
	named
	Released bool `json:"released"`
}

func (a *app) releaseCommand() *cobra.Command {
	var coolDown seconds
	var file string
	c := &cobra.Command{
		Use:   "release [FLAGS]",
		Short: "Release a lock by its key",
		Long:  releaseLong,
		Example: `  printf %s "$key" | padlock release
  padlock release --key-file deploy.key
  padlock release --cool-down 30s --key-file deploy.key`,
		DisableFlagsInUseLine: true,
		Args:                  onlyKey,
		RunE:                  func(c *cobra.Command, _ []string) error { return a.release(c.Context(), file, coolDown) },
	}
	c.Flags().SortFlags = false
	c.Flags().Var(&coolDown, "cool-down", "keep the name locked for another `SECONDS`")
	keyFlag(c, &file, "read the key from `FILE`")
	return c
}

func (a *app) release(ctx context.Context, file string, coolDown seconds) error {
	keys, err := a.readKeys(file)
	if err != nil {
		return err
	}
	name := lastName(keys)
	if len(keys) > 1 && coolDown.d > 0 {
		return usage("--cool-down is for one lock, and this key is of a path and its folders")
	}
	l, err := a.lasting(ctx, "release", name)
	if err != nil {
		return err
	}
	defer a.close(l)
	ctx, stop := interruptible(ctx)
	done := make(chan error, 1)
	go func() { done <- a.releaseKeys(ctx, l, keys, coolDown.d) }()
	select {
	case err = <-done:
		stop()
	case <-ctx.Done(): // a store that does not answer may not heed ctx either
		return interruptedRequest(stop(), name, "released")
	}
	if err != nil {
		return err
	}
	a.remark(name, "released %s", show(name))
	if a.json {
		return a.print(a.stdout, released{newNamed(name), true})
	}
	return nil
}

// releaseKeys releases the locks of the keys in reverse order, and returns the first error.
func (a *app) releaseKeys(ctx context.Context, l *padlock.Locker, keys []padlock.Key, coolDown time.Duration) (first error) {
	for _, key := range slices.Backward(keys) {
		first = cmp.Or(first, a.releaseKey(ctx, l, key, coolDown))
	}
	return first
}

// releaseKey releases the lock of a key.
func (a *app) releaseKey(ctx context.Context, l *padlock.Locker, key padlock.Key, coolDown time.Duration) error {
	g := l.Guarantees()
	err := driver.CheckKeep("CoolDown", coolDown, &g) // the person can choose another time, so the lock is kept
	if err == nil {
		err = l.ReleaseKey(ctx, key, padlock.CoolDown(coolDown))
	}
	if err != nil {
		return a.unsuccessful(key.Name(), "released", err)
	}
	return nil
}
