// Package all opens every kind of store that padlock has, from its URL. It is a separate module,
// because it links the clients of all servers. A program that needs only a few of them should use
// package open.
package all

import (
	"context"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/etcdstore"
	"github.com/padlock-go/padlock/memcachestore"
	"github.com/padlock-go/padlock/mongostore"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/pgstore"
	"github.com/padlock-go/padlock/redisstore"
	"github.com/padlock-go/padlock/semstore"
	"github.com/padlock-go/padlock/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/sqlstore/drivers/postgres"
	"github.com/padlock-go/padlock/sqlstore/drivers/sqlite"
	"github.com/padlock-go/padlock/zkstore"
)

// Schemes returns the schemes of all stores that are not part of package open. This list is the
// only place that names them: package open, the command and the tests use it.
func Schemes() []driver.Scheme {
	return []driver.Scheme{
		redisstore.Scheme(),
		postgres.Scheme(),
		pgstore.Scheme(),
		mysql.Scheme(),
		mysql.AdvisoryScheme(),
		sqlite.Scheme(),
		semstore.Scheme(),
		memcachestore.Scheme(),
		zkstore.Scheme(),
		etcdstore.Scheme(),
		mongostore.Scheme(),
	}
}

// Store is open.Store with all schemes.
func Store(ctx context.Context, rawURL string, opts ...open.Option) (driver.Store, error) {
	return open.Store(ctx, rawURL, with(opts)...)
}

// FromEnv is open.FromEnv with all schemes.
func FromEnv(ctx context.Context, opts ...open.Option) (driver.Store, error) {
	return open.FromEnv(ctx, with(opts)...)
}

func with(opts []open.Option) []open.Option {
	return append([]open.Option{open.Schemes(Schemes()...)}, opts...)
}
