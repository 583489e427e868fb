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

// extendKeys extends the locks to which the keys belong, and returns how long all of them are held
// now.
func (a *app) extendKeys(ctx context.Context, keys []padlock.Key, ttl time.Duration) (time.Duration, error) {
	l, err := a.lasting(ctx, "extend", lastName(keys))
	if err != nil {
		return 0, err
	}
	defer a.close(l)
	began, least := time.Now(), time.Duration(0)
	for i, key := range keys {
		left, err := l.ExtendKey(ctx, key, ttl)
		if err != nil {
			return 0, a.unsuccessful(key.Name(), "extended", err)
		}
		left += time.Since(began)
		if i == 0 || left < least {
			least = left
		}
	}
	return least - time.Since(began), nil
}

func (a *app) extend(ctx context.Context, file string, ttl time.Duration) error {
	keys, err := a.readKeys(file)
	if err != nil {
		return err
	}
	name := lastName(keys)
	left, err := a.extendKeys(ctx, keys, ttl)
	if err != nil {
		return err
	}
	a.remark(name, "%s is yours for %s", show(name), span(left))
	if a.json {
		return a.print(a.stdout, extended{newNamed(name), left.Seconds(), time.Now().Add(left).UTC()})
	}
	return nil
}
