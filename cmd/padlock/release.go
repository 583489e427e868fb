package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

const releaseLong = `release gives a lock back. With exit status 79 the lock was lost before: what was
done last may have been done beside somebody else. With --key-file the file is
removed when the lock is no longer yours; if that is not known it is kept, and
release may be called again.

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
	used, err := setAside(file)
	if err != nil {
		return fail(exitOutput, "output", name, "%s cannot be removed: %s; the lock was not given back", show(file), pathReason(err))
	}
	err = l.ReleaseKey(ctx, key, padlock.CoolDown(coolDown.d))
	used.settle(err == nil || (errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired)) && !errors.Is(err, padlock.ErrUncertain))
	if err != nil {
		return a.unsuccessful(name, "given back", err)
	}
	a.remark(name, "%s is given back", show(name))
	if a.json {
		return a.print(a.stdout, released{newNamed(name), true})
	}
	return nil
}

// usedKey is the file of a key that is about to be of no use. It is out of the
// way before the lock is given back: the next holder may write his key in the
// same place, and that is not to be removed.
type usedKey struct{ file, aside string }

// A link is followed, and what is no regular file, such as /dev/stdin or a pipe,
// stays where it is.
func setAside(file string) (usedKey, error) {
	if file == "" || strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/") {
		return usedKey{}, nil
	}
	file, err := regularFile(file)
	if err != nil {
		return usedKey{}, nil
	}
	u := usedKey{file, fmt.Sprintf("%s.used-%d", file, os.Getpid())}
	return u, os.Rename(file, u.aside)
}

// settle removes the file if its key is of no use any more, or puts it back.
func (u usedKey) settle(useless bool) {
	if u.file == "" {
		return
	}
	if !useless {
		if err := os.Link(u.aside, u.file); err != nil {
			return // nor is what is there now replaced
		}
	}
	_ = os.Remove(u.aside) // a key of no use may stay
}
