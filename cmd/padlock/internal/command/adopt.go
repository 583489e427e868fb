package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

const adoptLong = `adopt takes over the lock of a key. The lock gets a new key, a new fence and a new
lease of --ttl; the old key no longer works. The new key is printed or, with
--key-file, replaces the old one in the file. If you adopt the $PADLOCK_LOCK_KEY of
a padlock run, that run ends its command, because the lock is no longer its own.

` + keyHelp + `

Exit status:
` + verbStatuses

func (a *app) adoptCommand() *cobra.Command {
	var ttl seconds
	var label, file string
	c := &cobra.Command{
		Use:   "adopt [FLAGS]",
		Short: "Take over a lock by its key",
		Long:  adoptLong,
		Example: `  new=$(printf %s "$key" | padlock adopt --ttl 50s)
  padlock adopt --key-file deploy.key`,
		DisableFlagsInUseLine: true,
		Args:                  onlyKey,
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
	f.Var(&ttl, "ttl", "hold the lock for `SECONDS` (default 30)")
	f.StringVar(&label, "label", "padlock adopt", "show `TEXT` to others as the purpose of the lock")
	keyFlag(c, &file, "read the key from `FILE`, and write the new key there")
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
	ctx, stop := interruptible(ctx) // before the file of the new key is made
	place, err := newKeyPlace(file, keyRoom)
	if err != nil {
		stop()
		return err
	}
	defer place.drop()
	lock, err := l.Adopt(ctx, key, opts...)
	if s := stop(); s != nil && err != nil {
		return interruptedRequest(s, key.Name(), "taken over")
	}
	if err != nil {
		return a.unsuccessful(key.Name(), "taken over", err)
	}
	return a.handOver(l, []*padlock.Lock{lock}, place)
}
