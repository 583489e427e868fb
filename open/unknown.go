package open

import (
	"slices"
	"strings"

	"github.com/padlock-go/padlock/storekit"
)

// An importable store is one that a program has to import and to pass, because its client would be
// linked into every program otherwise.
type importable struct {
	schemes []string
	dir     string // below padlock's module
	scheme  string // the call that describes it
}

var importables = []importable{
	{[]string{"redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}, "stores/redisstore", "redisstore.Scheme()"},
	{[]string{"postgres", "postgresql"}, "stores/sqlstore/drivers/postgres", "postgres.Scheme()"},
	{[]string{"postgres+advisory", "postgresql+advisory"}, "stores/pgadvisory", "pgadvisory.Scheme()"},
	{[]string{"mysql", "mariadb"}, "stores/sqlstore/drivers/mysql", "mysql.Scheme()"},
	{[]string{"mysql+advisory", "mysql2+advisory", "mariadb+advisory"}, "stores/sqlstore/drivers/mysql", "mysql.AdvisoryScheme()"},
	{[]string{"sqlite"}, "stores/sqlstore/drivers/sqlite", "sqlite.Scheme()"},
	{[]string{"semaphore"}, "stores/semstore", "semstore.Scheme()"},
	{[]string{"memcached"}, "stores/memcachestore", "memcachestore.Scheme()"},
	{[]string{"zookeeper", "zk"}, "stores/zkstore", "zkstore.Scheme()"},
	{[]string{"etcd", "etcds"}, "stores/etcdstore", "etcdstore.Scheme()"},
	{[]string{"mongodb", "mongodb+srv"}, "stores/mongostore", "mongostore.Scheme()"},
	{[]string{"s3"}, "stores/s3store", "s3store.Scheme()"},
	{[]string{"gs"}, "stores/s3store", "s3store.GoogleScheme()"},
	{[]string{"dynamodb"}, "stores/dynamostore", "dynamostore.Scheme()"},
	{[]string{"kubernetes"}, "stores/leasestore", "leasestore.Scheme()"},
	{[]string{"padlock+https", "padlock+http"}, "stores/httpstore", "httpstore.Scheme()"},
}

// unknownScheme returns the error for a URL whose scheme has no store.
func (o *opener) unknownScheme(scheme string) error {
	if len(scheme) == 1 {
		return storekit.Invalidf("a store is named by a URL; for a directory on a drive write file:///%s:/…", strings.ToUpper(scheme))
	}
	for _, s := range importables {
		if slices.Contains(s.schemes, scheme) {
			return storekit.Invalidf("this program was built without the store for %s: URLs; import github.com/padlock-go/padlock/%s and pass open.Schemes(%s)", scheme, s.dir, s.scheme)
		}
	}
	return storekit.Invalidf("there is no store for %s: URLs; there are stores for %s", scheme, strings.Join(o.schemeNames(), ", "))
}

// unknownDSN returns the error for a DSN of PHP's Symfony whose locks padlock cannot share.
func (o *opener) unknownDSN(scheme string) error {
	switch {
	case scheme == "flock+remove":
		return storekit.Invalidf("PHP removes the files of flock+remove while others wait for them; give PHP flock:///DIRECTORY, and padlock symfony+flock:///DIRECTORY")
	case scheme == "in-memory" || scheme == "null":
		return storekit.Invalidf("no other process sees the locks of PHP's %s", scheme)
	}
	return storekit.Invalidf("padlock does not know this DSN of PHP's Symfony; it can share %s", strings.Join(o.dsns(), " or "))
}

// schemeNames returns the first scheme name of each store, with its colon.
func (o *opener) schemeNames() []string {
	var names []string
	for _, s := range o.schemes {
		if !s.InProcess || !o.betweenProcesses {
			names = append(names, s.Names[0]+":")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// dsns returns the beginnings of DSNs, such as "symfony+redis:". Padlock can open a DSN with one of
// these beginnings, and then shares the locks of PHP's Symfony.
func (o *opener) dsns() []string {
	var names []string
	for _, s := range o.schemes {
		for _, n := range s.Symfony {
			names = append(names, symfonyPrefix+n+":")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
