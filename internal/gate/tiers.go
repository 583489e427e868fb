package main

import (
	"slices"
	"strings"
)

const root = "github.com/padlock-go/padlock"

// second lists the packages whose tests are all in tier 2. A name that ends with "/" stands for all
// packages below it.
var second = []string{
	"internal/integration/", // pairs of real programs: PHP, browsers, frameworks, clusters
	"lab/bench/",            // self-tests of the benches
	"lab/chaos/mutants",     // broken stores, which the soak has to find
	"lab/chaos/rig",         // the soak itself
	"lab/padlock-verify",    // runs with every store, some on servers
}

// exceptions lists what second does not stand for: the suite of the contract on databases, the
// arithmetic of the benches, and the secrets that nothing may print.
var exceptions = []string{
	"internal/integration/sqlstore",
	"internal/integration/advisory",
	"internal/integration/secrets",
	"lab/bench/measure",
}

// plain lists the packages that run without the race detector: they read files, execute built
// programs, which the detector does not see, have no goroutines, or link a large client whose store
// has the concurrency of storekit/register, which runs with it.
var plain = []string{
	"cmd/padlock", "cmd/padlock/",
	"drivertest",
	"examples", "examples/",
	"internal/explore/holder", // reads fields of live values
	"internal/explore/newest", // the detector makes it five times slower; the tests of newest run with it
	"internal/explore/store",  // the detector makes it ten times slower; internal/explore has its goroutines
	"internal/house",
	"internal/integration/advisory",
	"internal/integration/sqlstore",
	"internal/integration/adapters", // golang-migrate has races of its own
	"internal/integration/secrets",  // reads fields of live values
	"internal/server",
	"lab/bench/measure", "lab/chaos", "lab/soak/linear", "lab/padlock-verify", "lab/plots", "lab/site",
	"open", "open/all",
	"web/session/phpcodec",
	"web/session/sessiontest", "web/session/sessiontest/",
	"stores/dynamostore", "stores/leasestore", "stores/s3store",
	"stores/quorum",
	"stores/sqlstore/drivers/sqlite",
}

// longest lists the packages that take longest, the longest first.
var longest = []string{
	"internal/explore/store", "internal/integration/sqlstore", "cmd/padlock/internal/command", "stores/etcdstore", "internal/facetest", "stores/redisstore",
	"stores/httpstore", "stores/s3store", "stores/zkstore", "stores/memcachestore", "stores/pgadvisory", "web/session/redissession",
	"stores/filestore", "drivertest", "lab/chaos/mutants", "lab/chaos/rig",
}

// matches reports whether a list names the package.
func matches(list []string, pkg string) bool {
	dir := directory(pkg)
	return slices.ContainsFunc(list, func(e string) bool {
		return e == dir || strings.HasSuffix(e, "/") && strings.HasPrefix(dir, e)
	})
}

// rank is smaller for a package that takes longer.
func rank(pkg string) int {
	if i := slices.Index(longest, directory(pkg)); i >= 0 {
		return i
	}
	return len(longest)
}

// directory returns where a package stands in the tree, "." for the root.
func directory(pkg string) string {
	if pkg == root {
		return "."
	}
	return strings.TrimPrefix(pkg, root+"/")
}
