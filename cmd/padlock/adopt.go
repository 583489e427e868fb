package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

const adoptLong = `adopt takes a lock over from whoever has its key: it gets a new key, a new fence
and a new lease of --ttl, and the old key is of no use any more. The new key is
printed, or takes the place of the old one in the file of --key-file. A padlock
run whose $PADLOCK_LOCK_KEY is adopted ends its command: the lock is not its own any
more.

` + keyHelp + `

Exit status:
` + verbStatuses

func (a *app) adoptCommand() *cobra.Command {
	var ttl seconds
	var label, file string
	c := &cobra.Command{
		Use:   "adopt [FLAGS]",
		Short: "Take a lock over from whoever has its key",
		Long:  adoptLong,
		Example: `  new=$(printf %s "$key" | padlock adopt --ttl 5m)
  padlock adopt --key-file deploy.key`,
		DisableFlagsInUseLine: true,
		Args:                  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			opts := []padlock.Option{padlock.Label(label)}
			if ttl.given {
				opts = append(opts, padlock.TTL(ttl.d))
			}
			return a.adopt(c.Context(), file, opts)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Var(&ttl, "ttl", "the lock stays taken for `SECONDS` (default 30)")
	f.StringVar(&label, "label", "padlock adopt", "tell others that `TEXT` is what the lock is held for")
	keyFlag(c, &file, "read the key from `FILE`, and write the new one there")
	return c
}

func (a *app) adopt(ctx context.Context, file string, opts []padlock.Option) error {
	key, err := a.readKey(file)
	if err != nil {
		return err
	}
	l, err := a.lasting(ctx, "adopt", key.Name())
	if err != nil {
		return err
	}
	defer a.close(l)
	place, err := newKeyPlace(file)
	if err != nil {
		return err
	}
	defer place.drop()
	lock, err := l.Adopt(ctx, key, opts...)
	if err != nil {
		return a.unsuccessful(key.Name(), "taken over", err)
	}
	return a.handOver(lock, place)
}
