package open

import (
	"context"
	"net/url"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/filestore"
	"github.com/padlock-go/padlock/memstore"
	"github.com/padlock-go/padlock/redisstore"
)

// constructor makes a store of one scheme. Its errors say of which kind of
// store they are, and never a user, a password or a value that may be secret.
type constructor func(ctx context.Context, o *opener, u *url.URL) (driver.Store, error)

// schemes is the table of stores: who adds one, adds a line, and a row to
// foreign if PHP spells it otherwise.
func schemes() map[string]constructor {
	table := map[string]constructor{
		"file":   file,
		"memory": memory,
	}
	for _, scheme := range []string{"redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster"} {
		table[scheme] = redis
	}
	for scheme, rule := range rules() {
		table[scheme] = members(*rule)
	}
	return table
}

func file(ctx context.Context, _ *opener, u *url.URL) (driver.Store, error) {
	s, err := filestore.FromURL(ctx, u)
	if err != nil {
		return nil, err // not s: a nil *Store is no nil driver.Store
	}
	return s, nil
}

func redis(ctx context.Context, o *opener, u *url.URL) (driver.Store, error) {
	var opts []redisstore.Option
	if o.state != "" && !u.Query().Has("run-ids") {
		opts = append(opts, redisstore.RememberRunIDs(redisstore.RunIDDir(o.state)))
	}
	if o.mayBeDown && !u.Query().Has("lazy") {
		opts = append(opts, redisstore.Lazy())
	}
	s, err := redisstore.FromURL(ctx, u, opts...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func memory(_ context.Context, o *opener, u *url.URL) (driver.Store, error) {
	switch {
	case o.betweenProcesses:
		return nil, invalid("locks in memory are seen by one process only; use a directory, as in file:///var/lib/locks")
	case u.String() != "memory:":
		return nil, invalid("the URL is memory: and nothing more")
	}
	return memstore.New(), nil
}
