package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An arrowRow says which packages of padlock a package, and those below it, may import. If several
// rows match a package, the row with the longest directory counts.
type arrowRow struct {
	dir   string
	code  []string // what its code may import
	tests []string // what its tests may import in addition; a test may always import its own package
}

// anything in a row allows its packages to import every package of padlock.
const anything = "*"

// rootTests are the packages that tests of the root module may use. All of them belong to the root
// module.
var rootTests = []string{".", "driver", "drivertest", "storekit/register", "internal/server", "padlocktest", "fence", "stores/memstore", "stores/filestore", "stores/quorum"}

// sessionTests are the packages that tests of sessions may use. The suite for the stores of
// sessions and the load client are among them.
var sessionTests = append(slices.Clone(rootTests), "web/session", "web/session/phpcodec", "web/session/phpsession", "web/session/sessionstore", "web/session/sessiontest", "web/session/sessiontest/load")

// storeTests are the packages that the tests of a store may use.
var storeTests = []string{".", "driver", "drivertest", "internal/awskeys", "internal/replay", "internal/seccomp", "internal/server", "internal/server/fakes", "storekit/overhttp/overhttptest"}

// everyStore lists the packages of stores. These are the packages that package open and its module
// open/all import. So a new store gets its row as soon as one of the two imports it.
var everyStore []string

func readStores() []string {
	var stores []string
	for _, dir := range []string{"open", "open/all"} {
		names, _ := filepath.Glob(dir + "/*.go") // outside of the project's tree there are no such files
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				continue // TestHouse reports this error
			}
			stores = append(stores, openedBy(f)...)
		}
	}
	if slices.ContainsFunc(stores, isDriver) {
		stores = append(stores, "stores/sqlstore", "stores/sqlstore/symfony") // open and open/all import only the drivers of sqlstore
	}
	if slices.Contains(stores, mysqlDriver) {
		stores = append(stores, "stores/mysqladvisory") // this driver also opens databases for mysqladvisory
	}
	slices.Sort(stores)
	return slices.Compact(stores)
}

// openedBy returns the packages of padlock that a file of package open imports, without the root,
// driver, storekit, storekit/storeurl and open.
func openedBy(f *ast.File) []string {
	var stores []string
	for _, spec := range f.Imports {
		for _, dir := range ownModules([]string{strings.Trim(spec.Path.Value, "`\"")}) {
			if dir != "." && dir != "driver" && dir != "open" && dir != "storekit" && dir != "storekit/storeurl" {
				stores = append(stores, dir)
			}
		}
	}
	return stores
}

// arrows is the table of all packages. docs/design.md draws it, and TestDesign compares the two.
//
// A store imports neither the root package nor another store. So stores can be combined, and an
// application compiles only the stores that it uses.
var arrows []arrowRow

func arrowTable() []arrowRow {
	return append(append(storeRows(), compatRows()...),
		arrowRow{dir: ".", code: []string{"driver"}, tests: rootTests},
		arrowRow{dir: "internal/facetest", tests: rootTests},                                                                // the tests of the root from outside
		arrowRow{dir: "driver", tests: rootTests}, arrowRow{dir: "driver/fast", code: []string{"driver"}, tests: rootTests}, // fast: a package that may import driver may import fast
		arrowRow{dir: "drivertest", code: []string{"driver", "internal/safety"}, tests: append([]string{"open", "storekit", "storekit/overhttp", "storekit/storeurl"}, rootTests...)},
		arrowRow{dir: "internal/server"}, arrowRow{dir: "internal/safety"}, arrowRow{dir: "internal/explore"}, arrowRow{dir: "internal/explore/store", code: []string{"driver", "internal/explore", "internal/safety", "storekit/decide"}, tests: rootTests}, arrowRow{dir: "internal/explore/holder", tests: append([]string{"internal/explore", "internal/explore/steady", "storekit/decide"}, rootTests...)}, arrowRow{dir: "internal/explore/steady", code: []string{"."}}, arrowRow{dir: "internal/explore/newest", tests: append([]string{"internal/explore/steady", "newest", "storekit/decide"}, rootTests...)}, arrowRow{dir: "internal/gate", code: []string{"internal/safety"}}, // safety: how tests say that a promise of safety is broken
		arrowRow{dir: "storekit", code: []string{"driver"}},                                                                                                   // what most stores need besides their server
		arrowRow{dir: "storekit/advisory", code: []string{"driver", "storekit"}, tests: storeTests},                                                           // a store over locks that end with their connection
		arrowRow{dir: "storekit/decide", code: []string{"driver"}, tests: storeTests},                                                                         // the decision about one lock
		arrowRow{dir: "storekit/register", code: []string{"driver", "internal/reads", "storekit", "storekit/decide", "storekit/storeurl"}, tests: storeTests}, // a store over compare-and-set
		arrowRow{dir: "storekit/overhttp", code: []string{"driver", "storekit"}, tests: storeTests},                                                           // requests to services over HTTP
		arrowRow{dir: "storekit/aws"}, // the signature of AWS
		arrowRow{dir: "storekit/overhttp/overhttptest", code: []string{".", "driver", "drivertest", "internal/safety"}}, // front ends that misbehave
		arrowRow{dir: "storekit/storeurl", code: []string{"driver"}},                                                    // the URLs of the stores
		arrowRow{dir: "internal/login"}, // hides users and passwords in errors, for the stores in databases
		arrowRow{dir: "internal/redisconn", code: []string{"driver", "storekit/storeurl"}}, // the URLs and connections of redisstore and redissession
		arrowRow{dir: "internal/sqlpool"},                                                  // leaves database servers that do not write, for sqlstore and sqlsession
		arrowRow{dir: "padlocktest", code: []string{".", "driver", "stores/memstore"}, tests: rootTests},
		arrowRow{dir: "fence", code: []string{"."}, tests: rootTests},
		arrowRow{dir: "internal/printable"}, // escapes foreign texts for screens, pages and figures
		arrowRow{dir: "internal/promtext"}, arrowRow{dir: "internal/remote"},
		arrowRow{dir: "internal/httpapi"},                                                                  // the answers of /v1/, for the server and the client
		arrowRow{dir: "internal/reads"},                                                                    // counts what a list costs, for the sampler
		arrowRow{dir: "internal/replay", code: []string{"driver", "storekit/overhttp"}},                    // replies of services, for the tests of stores and padlock-verify
		arrowRow{dir: "internal/recordfile", code: []string{"driver"}, tests: []string{"internal/server"}}, // the files of a history, for history and filestore
		arrowRow{dir: "observe/history", code: []string{"driver", "internal/printable", "internal/promtext", "internal/recordfile"}, tests: rootTests},
		arrowRow{dir: "internal/group"}, // the groups of names, for all packages that report figures
		arrowRow{dir: "observe/padlockweb", code: []string{".", "driver", "observe/sampler", "observe/history", "internal/printable", "internal/promtext", "internal/remote"}, tests: append(rootTests, "internal/reads")},
		arrowRow{dir: "observe/padlockapi", code: []string{".", "driver", "internal/httpapi", "internal/remote"}, tests: rootTests},
		arrowRow{dir: "observe/sampler", code: []string{".", "driver", "internal/group", "internal/reads"}, tests: rootTests},
		arrowRow{dir: "observe/metrics", code: []string{".", "internal/group", "internal/promtext"}, tests: append(slices.Clone(rootTests), "election")},
		arrowRow{dir: "observe/padlockotel", code: []string{".", "internal/group"}, tests: rootTests},
		arrowRow{dir: "election", code: []string{"."}, tests: rootTests}, arrowRow{dir: "newest", code: []string{".", "driver"}, tests: rootTests},
		arrowRow{dir: "web/session", code: []string{".", "web/session/sessionstore", "web/session/internal/standing", "web/internal/jsoncodec", "web/internal/ordered"}, tests: sessionTests},
		arrowRow{dir: "web/session/sessionstore", code: []string{"web/internal/ordered"}, tests: sessionTests}, // the side of stores, which knows nothing of requests
		arrowRow{dir: "internal/awskeys", code: []string{"driver"}}, arrowRow{dir: "web/session/internal/standing"}, arrowRow{dir: "web/session/phpcodec"},
		arrowRow{dir: "web/internal/jsoncodec"}, arrowRow{dir: "web/internal/ordered"}, // for sessions: the default codec, and a map that keeps the order of its keys
		arrowRow{dir: "web/session/phpsession", code: []string{".", "web/session", "web/session/sessionstore", "web/session/phpcodec"}, tests: sessionTests},
		arrowRow{dir: "web/session/sessiontest", code: []string{"web/session", "web/session/sessionstore"}, tests: sessionTests},
		arrowRow{dir: "web/session/sqlsession", code: []string{"web/session/sessionstore", "internal/sqlpool"}, tests: sessionTests},
		arrowRow{dir: "web/session/scsstore", code: []string{"web/session", "web/session/sessionstore"}, tests: sessionTests},
		arrowRow{dir: "web/session/gorillastore", code: []string{"web/session", "web/session/sessionstore"}, tests: sessionTests},
		arrowRow{dir: "web/stampede", code: []string{".", "web/internal/jsoncodec"}, tests: append(slices.Clone(rootTests), "observe/metrics")},
		arrowRow{dir: "web/session/redissession", code: []string{".", "web/session/sessionstore", "web/stampede", "storekit/storeurl", "stores/redisstore", "internal/redisconn"}, tests: sessionTests}, // redisstore: its Config, and options of the locks that sessions need; storeurl: its own parameter of the URL
		arrowRow{dir: "open", code: []string{"driver", "storekit", "storekit/storeurl", "stores/memstore", "stores/filestore", "stores/quorum"}, tests: storeTests},
		arrowRow{dir: "open/all", code: append([]string{"driver", "open", "storekit/storeurl"}, everyStore...), tests: storeTests},
		arrowRow{dir: "web/padlockhttp", code: []string{".", "web/session/sessionstore"}, tests: rootTests},
		arrowRow{dir: "adapters/certmagiclock", code: []string{"."}, tests: rootTests},
		arrowRow{dir: "adapters/watermilllock", code: []string{".", "driver"}, tests: rootTests},
		arrowRow{dir: "adapters/gocronlock", code: []string{"."}, tests: append([]string{"election"}, rootTests...)},
		arrowRow{dir: "internal/house"},
		arrowRow{dir: "internal/house/portable", tests: []string{"internal/server"}},
		arrowRow{dir: "internal/release", tests: []string{"internal/server"}}, // makes the files of a release
		arrowRow{dir: "lab/soak", code: []string{".", "driver", "election", "newest", "internal/safety", "internal/server", "lab/soak"}, tests: rootTests}, // the engine of padlock-verify and of the chaos tests
		arrowRow{dir: "cmd/padlock", code: []string{".", "driver", "newest", "observe/history", "open", "open/all", "storekit/storeurl", "stores/redisstore", "stores/semstore", "stores/memcachestore", "stores/httpstore", "stores/pgadvisory", "stores/sqlstore/drivers/mysql", "stores/sqlstore/drivers/postgres", "internal/printable", "observe/sampler", "cmd/padlock/internal/serve"}, tests: []string{"internal/server", "internal/server/fakes", "padlocktest"}}, // driver: the names of slots
		arrowRow{dir: "cmd/padlock/internal/serve", code: []string{".", "observe/history", "observe/padlockapi", "observe/padlockweb", "observe/sampler", "internal/remote", "cmd/padlock/internal/texts"}, tests: []string{"internal/server", "open"}},
		arrowRow{dir: "examples", code: []string{anything}},
		arrowRow{dir: "internal/integration", code: []string{anything}},
		arrowRow{dir: "lab", code: []string{anything}},
	)
}

// compatRows returns the rows of what programs that move use.
func compatRows() []arrowRow {
	return []arrowRow{
		arrowRow{dir: "compat/goredis", code: []string{"driver", "stores/redisstore"}, tests: []string{".", "internal/server"}},
		arrowRow{dir: "compat/redislock", code: []string{".", "driver", "compat/goredis", "stores/redisstore"}, tests: rootTests},
		arrowRow{dir: "compat/redsync", code: []string{".", "driver", "compat/goredis", "compat/redsync", "stores/quorum", "stores/redisstore"}, tests: rootTests},
	}
}

// mysqlDriver is the package that opens databases for sqlstore and for mysqladvisory.
const mysqlDriver = "stores/sqlstore/drivers/mysql"

// isDriver reports whether a package opens databases for sqlstore. Such a package may import the
// stores that it serves. Most stores import no other store.
func isDriver(store string) bool { return strings.HasPrefix(store, "stores/sqlstore/drivers/") }

func storeRows() []arrowRow {
	var rows []arrowRow
	for _, store := range everyStore {
		if isDriver(store) {
			code := []string{"driver", "stores/sqlstore", "stores/sqlstore/symfony", "internal/login", "storekit", "storekit/storeurl"}
			if store == mysqlDriver {
				code = append(code, "stores/mysqladvisory")
			}
			rows = append(rows, arrowRow{dir: store, code: code, tests: storeTests})
			continue
		}
		tests := storeTests
		switch store {
		case "stores/quorum", "stores/sqlstore": // quorum is made of other stores; the grants of the statements of sqlstore are compared with those of memstore
			tests = append(slices.Clone(tests), "stores/memstore")
		case "stores/httpstore": // its servers
			tests = append(slices.Clone(tests), "stores/memstore", "observe/padlockapi")
		case "stores/redisstore": // the scripts are compared with decide
			tests = append(slices.Clone(tests), "internal/explore/store", "storekit/decide")
		}
		code := []string{"driver", "storekit", "storekit/storeurl"}
		switch store {
		case "stores/redisstore":
			code = append(code, "internal/redisconn")
		case "stores/filestore":
			code = append(code, "internal/recordfile")
		case "stores/memstore":
			code = append(code, "storekit/decide")
		case "stores/pgadvisory":
			code = append(code, "storekit/advisory", "internal/login")
		case "stores/mysqladvisory":
			code = append(code, "storekit/advisory")
		case "stores/leasestore":
			code = append(code, "storekit/register", "storekit/overhttp")
		case "stores/httpstore":
			code = append(code, "storekit/overhttp", "internal/httpapi")
		case "stores/s3store", "stores/dynamostore":
			code = append(code, "storekit/register", "storekit/overhttp", "storekit/aws")
		case "stores/sqlstore":
			code = append(code, "storekit/decide", "internal/sqlpool")
		case "stores/sqlstore/symfony": // another table in the same databases
			code = append(code, "stores/sqlstore", "stores/sqlstore/internal/dbms", "internal/sqlpool")
		}
		rows = append(rows, arrowRow{dir: store, code: code, tests: tests})
	}
	return rows
}

// checkArrows reports every import that no row allows.
func checkArrows(f *houseFile) []string {
	if f.ast == nil {
		return nil
	}
	var found []string
	for _, spec := range f.ast.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			target = spec.Path.Value
		}
		if complaint := judge(f, target); complaint != "" {
			found = append(found, fmt.Sprintf("%s: %s imports %s: %s", f.position(spec.Pos()), f.pkg(), target, complaint))
		}
	}
	return found
}

// judge returns the reason why an import is not allowed, or "".
func judge(f *houseFile, target string) string {
	if target == padlockPath || strings.HasPrefix(target, padlockPath+"/") {
		return judgeOwn(f, strings.TrimPrefix(strings.TrimPrefix(target, padlockPath), "/"))
	}
	if target == "C" {
		return "padlock builds without a C compiler; use package syscall behind a build tag"
	}
	if first, _, _ := strings.Cut(target, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	return judgeGuest(f, target)
}

func judgeOwn(f *houseFile, target string) string {
	if target == "" {
		target = "."
	}
	row := rowOf(f.pkg())
	if row == nil {
		return "the package has no row in the table of arrows; add one to internal/house/arrows_test.go and to the picture in docs/design.md"
	}
	allowed := row.code
	if f.test() {
		allowed = append(slices.Clone(allowed), append(row.tests, f.pkg(), "internal/safety")...)
	}
	if target == "driver/fast" && slices.Contains(allowed, "driver") {
		return ""
	}
	if slices.Contains(allowed, anything) || slices.Contains(allowed, target) || within(target, row.dir) {
		return ""
	}
	return fmt.Sprintf("the arrows of docs/design.md allow it only %s; what two packages share belongs into driver or stays apart", list(allowed))
}

// within reports whether the target package is part of the package at dir. Packages below dir
// without a row of their own are its parts. For the root, only internal packages count as parts.
func within(target, dir string) bool {
	if dir == "." {
		return strings.HasPrefix(target, "internal/") && !strings.HasPrefix(target, "internal/integration")
	}
	return strings.HasPrefix(target, dir+"/") && rowOf(target).dir == dir
}

// rowOf finds the row of a package. If the package has no row, the row of the nearest directory
// above counts. The root's row is for the root only.
func rowOf(pkg string) *arrowRow {
	for dir := pkg; ; dir = path.Dir(dir) {
		for i := range arrows {
			if arrows[i].dir == dir && (dir != "." || pkg == ".") {
				return &arrows[i]
			}
		}
		if dir == "." {
			return nil
		}
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return "the standard library"
	}
	return strings.Join(names, ", ")
}

func itoa(n int) string { return strconv.Itoa(n) }
