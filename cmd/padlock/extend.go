package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

const extendLong = `extend makes a lock last at least --ttl from now. The key stays as it is. With
exit status 79 the lock is lost: somebody else may have it, and what you do under
it has to stop. So extend is also the way to ask, before each step, whether the
lock is still yours.

` + keyHelp + `

Exit status:
` + verbStatuses

// extended is what extend prints in JSON.
type extended struct {
	named
	Seconds float64   `json:"seconds"` // that the lock is good for
	Until   time.Time `json:"until"`
}

func (a *app) extendCommand() *cobra.Command {
	ttl := seconds{d: padlock.DefaultTTL}
	var file string
	c := &cobra.Command{
		Use:   "extend [FLAGS]",
		Short: "Make a lock last longer, by its key",
		Long:  extendLong,
		Example: `  printf %s "$key" | padlock extend --ttl 5m || exit
  padlock extend --key-file deploy.key`,
		DisableFlagsInUseLine: true,
		Args:                  noArgs,
		RunE:                  func(c *cobra.Command, _ []string) error { return a.extend(c.Context(), file, ttl.d) },
	}
	c.Flags().SortFlags = false
	c.Flags().Var(&ttl, "ttl", "the lock stays taken for `SECONDS` from now (default 30)")
	keyFlag(c, &file, "read the key from `FILE`")
	return c
}

func (a *app) extend(ctx context.Context, file string, ttl time.Duration) error {
	key, err := a.readKey(file)
	if err != nil {
		return err
	}
	name := key.Name()
	l, err := a.lasting(ctx, "extend", name)
	if err != nil {
		return err
	}
	defer a.close(l)
	left, err := l.ExtendKey(ctx, key, ttl)
	if err != nil {
		return a.unsuccessful(name, "extended", err)
	}
	a.remark(name, "%s is yours for %s", show(name), span(left))
	if a.json {
		return a.print(a.stdout, extended{newNamed(name), left.Seconds(), time.Now().Add(left).UTC()})
	}
	return nil
}
