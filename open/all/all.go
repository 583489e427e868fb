// Package all opens every kind of store that padlock has, from its URL. It is a separate module,
// because it links the clients of all servers. Use it for tools that must open any store. A program
// that needs only a few of them should use package open instead.
package all

import (
	"context"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/dynamostore"
	"github.com/padlock-go/padlock/stores/etcdstore"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/leasestore"
	"github.com/padlock-go/padlock/stores/memcachestore"
	"github.com/padlock-go/padlock/stores/mongostore"
	"github.com/padlock-go/padlock/stores/pgadvisory"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/stores/s3store"
	"github.com/padlock-go/padlock/stores/semstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/sqlite"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// Schemes returns the schemes of all stores that are not part of package open. This list is the
// only place that names them: package open, the command and the tests use it.
func Schemes() []storeurl.Scheme {
	return []storeurl.Scheme{
		redisstore.Scheme(),
		postgres.Scheme(),
		pgadvisory.Scheme(),
		mysql.Scheme(),
		mysql.AdvisoryScheme(),
		sqlite.Scheme(),
		semstore.Scheme(),
		memcachestore.Scheme(),
		zkstore.Scheme(),
		etcdstore.Scheme(),
		mongostore.Scheme(),
		s3store.Scheme(),
		s3store.GoogleScheme(),
		dynamostore.Scheme(),
		leasestore.Scheme(),
		httpstore.Scheme(),
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
