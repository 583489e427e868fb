package main

import (
	"context"
	"os"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// openStore is replaced in tests of what no store of the command does by itself.
var openStore = func(ctx context.Context, url string) (padlock.Store, error) {
	opts := []open.Option{open.BetweenProcesses()}
	if dir, err := open.DefaultDir(); err == nil {
		opts = append(opts, open.StateDir(dir)) // else the guard knows this process only
	}
	return open.Store(ctx, url, opts...)
}

// url is where locks are kept, or "" if that cannot be told.
func (a *app) url() (string, error) {
	for _, url := range []string{a.storeURL, os.Getenv("PADLOCK_STORE")} {
		if url != "" {
			return url, nil
		}
	}
	return open.DefaultURL()
}

// place is where locks are kept, as it may be shown.
func (a *app) place() string {
	url, err := a.url()
	if err != nil {
		return "the default store"
	}
	return "the store " + open.Redacted(url)
}

// locker opens the store.
func (a *app) locker(ctx context.Context, name string, opts ...padlock.LockerOption) (*padlock.Locker, error) {
	url, err := a.url()
	if err != nil {
		return nil, fail(exitUnavailable, "unavailable", name, "there is no default store for this user: %s; --store and PADLOCK_STORE name another", reason(err))
	}
	store, err := openStore(ctx, url)
	if err != nil {
		return nil, a.explain(name, err)
	}
	return padlock.New(store, opts...), nil
}

// closePatience is how long an exit may be held up by a store that does not
// answer; what is left then runs out by its lease.
var closePatience = 5 * time.Second

func (a *app) close(l *padlock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	_ = l.Close(ctx) // what matters was told by Release
}
