package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

const releaseLong = `release releases a lock by its key. Exit status 79 means that the lock was lost
earlier: somebody else may have worked under it at the same time as you. With
--key-file the file is removed when the lock is no longer yours. If release cannot
tell, it keeps the file, and you can call it again.

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
	keyFlag(c, &file, "read the key from `FILE`, and remove the file")
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
	ctx, stop := interruptible(ctx) // before the file is moved
	used, err := setAside(file)
	if err != nil {
		stop()
		return fail(exitOutput, "output", name, "%s cannot be removed: %s; the lock was not released", show(file), pathReason(err))
	}
	done := make(chan error, 1)
	go func() { done <- a.releaseKey(ctx, l, key, coolDown.d) }()
	select {
	case err = <-done:
		stop()
	case <-ctx.Done(): // a store that does not answer may not heed ctx either
		used.settle(false)
		return interruptedRequest(stop(), name, "released")
	}
	var why *failure
	lost := errors.As(err, &why) && why.status == exitLost
	used.settle(err == nil || lost)
	if err != nil {
		return err
	}
	a.remark(name, "released %s", show(name))
	if a.json {
		return a.print(a.stdout, released{newNamed(name), true})
	}
	return nil
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

// usedKey is the file of a key that is about to become invalid. The file is moved away before the
// lock is released. After the release, the next holder may write its key to the same place, and
// that new key must stay.
type usedKey struct{ file, aside string }

// setAside moves the file of a key away. A file that is not regular, such as a link, /dev/stdin or a
// pipe, stays where it is.
func setAside(file string) (usedKey, error) {
	if file == "" || checkKeyFile(file) != nil {
		return usedKey{}, nil
	}
	u := usedKey{file, fmt.Sprintf("%s.used-%d", file, os.Getpid())}
	return u, os.Rename(file, u.aside)
}

// linkFile is os.Link, except in tests.
var linkFile = os.Link

// settle removes the file if its key is invalid now, and puts it back otherwise.
func (u usedKey) settle(useless bool) {
	if u.file == "" {
		return
	}
	if !useless {
		err := linkFile(u.aside, u.file)
		if errors.Is(err, fs.ErrExist) {
			return // a new key is at this place, and stays
		}
		if err != nil { // the file system has no hard links
			_ = os.Rename(u.aside, u.file)
			return
		}
	}
	_ = os.Remove(u.aside) // if that fails, an invalid key stays, which does no harm
}
