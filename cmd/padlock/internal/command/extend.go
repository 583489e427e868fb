package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

const extendLong = `extend prolongs a lock so that it lasts at least --ttl from now. The key stays the
same. Exit status 79 means that the lock is lost: others can take it, so stop the
work that needs it. Call extend before each step to make sure that the lock is
still yours.

` + keyHelp + `

Exit status:
` + verbStatuses

// extended is what extend prints in JSON.
type extended struct {
	named
	Seconds float64   `json:"seconds"` // remaining time for which the lock is held
	Until   time.Time `json:"until"`
}

func (a *app) extendCommand() *cobra.Command {
	ttl := seconds{d: padlock.DefaultTTL}
	var file string
	c := &cobra.Command{
		Use:   "extend [FLAGS]",
		Short: "Prolong a lock by its key",
		Long:  extendLong,
		Example: `  printf %s "$key" | padlock extend --ttl 50s || exit
  padlock extend --key-file deploy.key`,
		DisableFlagsInUseLine: true,
		Args:                  onlyKey,
		RunE:                  func(c *cobra.Command, _ []string) error { return a.extend(c.Context(), file, ttl.d) },
	}
	c.Flags().SortFlags = false
	c.Flags().Var(&ttl, "ttl", "hold the lock for at least `SECONDS` from now (default 30)")
	keyFlag(c, &file, "read the key from `FILE`")
	return c
}

// extendKey extends the lock to which the key belongs, and returns how long the lock is held now.
func (a *app) extendKey(ctx context.Context, key padlock.Key, ttl time.Duration) (time.Duration, error) {
	l, err := a.lasting(ctx, "extend", key.Name())
	if err != nil {
		return 0, err
	}
	defer a.close(l)
	left, err := l.ExtendKey(ctx, key, ttl)
	if err != nil {
		return 0, a.unsuccessful(key.Name(), "extended", err)
	}
	return left, nil
}

func (a *app) extend(ctx context.Context, file string, ttl time.Duration) error {
	key, err := a.readKey(file)
	if err != nil {
		return err
	}
	name := key.Name()
	left, err := a.extendKey(ctx, key, ttl)
	if err != nil {
		return err
	}
	a.remark(name, "%s is yours for %s", show(name), span(left))
	if a.json {
		return a.print(a.stdout, extended{newNamed(name), left.Seconds(), time.Now().Add(left).UTC()})
	}
	return nil
}
