package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

const releaseLong = `release gives a lock back. With exit status 79 the lock was lost before: what was
done last may have been done beside somebody else. With --key-file the file is
removed when the lock is no longer yours.

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
		Short: "Give a lock back, by its key",
		Long:  releaseLong,
		Example: `  printf %s "$key" | padlock release
  padlock release --key-file deploy.key
  padlock release --cool-down 30s --key-file deploy.key`,
		DisableFlagsInUseLine: true,
		Args:                  noArgs,
		RunE:                  func(c *cobra.Command, _ []string) error { return a.release(c.Context(), file, coolDown) },
	}
	c.Flags().SortFlags = false
	c.Flags().Var(&coolDown, "cool-down", "keep the name taken for another `SECONDS`")
	keyFlag(c, &file, "read the key from `FILE`, and remove it")
	return c
}

func (a *app) release(ctx context.Context, file string, coolDown seconds) error {
	key, err := a.readKey(file)
	if err != nil {
		return err
	}
	name := key.Name()
	l, err := a.lasting(ctx, "release", name)
	if err != nil {
		return err
	}
	defer a.close(l)
	err = l.ReleaseKey(ctx, key, padlock.CoolDown(coolDown.d))
	gone := errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired)
	if file != "" && (err == nil || gone && !errors.Is(err, padlock.ErrUncertain)) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.say(fail(0, "remark", name, "the key is of no use any more, but %s cannot be removed: %s", show(file), pathReason(err)).note)
		}
	}
	if err != nil {
		return a.unsuccessful(name, "given back", err)
	}
	a.remark(name, "%s is given back", show(name))
	if a.json {
		return a.print(a.stdout, released{newNamed(name), true})
	}
	return nil
}
