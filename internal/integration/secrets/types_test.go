package secrets

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const tree = "../../.."

// printed says that a test of this package prints the type while it knows a secret. Every other text
// in the tables says why none does.
const printed = ""

// checked has a row for each exported type of the packages whose types hide their secrets.
var checked = map[string]map[string]string{
	".": {
		"Key": printed, "Lock": printed, "Locks": printed, "Locker": printed, "Option": printed, "LockerOption": printed,
		"Error": printed, "HeldError": printed, "State": printed, "Hold": printed, "Holder": "a part of Hold", "Stats": printed, "Event": printed, "Grant": printed, "Question": "what others see",
		"ReleaseOption": "an interface; its one value is a CoolDownOption", "CoolDownOption": "a Duration",
		"Observer": "an interface of the caller's", "ContextObserver": "an interface of the caller's", "ObserverFunc": "a func",
		"Store": "an interface; see the rows of the stores", "Guarantees": "facts of a kind of store", "Finding": "a fact about a server",
		"EventKind": "a number", "HandOver": "a number", "Mode": "a number", "Outcome": "a number", "Op": "the name of a method",
	},
	"driver": {
		"Token": printed, "Request": printed,
		"Grant": "has no token", "Holder": "what others see", "Hold": "what others see", "State": "what others see",
		"HeldError": "what others see", "Guarantees": "facts of a kind of store", "Finding": "a fact about a server",
		"Ability": "a number", "Instant": "a number", "Outcome": "a number", "Promise": "a number", "Bound": "a number", "Fence": "a number", "Promotion": "a number",
		"Store": "an interface", "Waiter": "an interface", "Converter": "an interface", "Admin": "an interface", "FenceRaiser": "an interface",
		"Places": "an interface", "Reporter": "an interface", "Clock": "an interface",
	},
	"driver/fast": {
		"Extension": printed, "Extended": "has no token", "Record": "what happened to a name",
		"SlotTaker": "an interface", "BatchExtender": "an interface", "Passer": "an interface", "Recorder": "an interface", "FileSharer": "an interface",
	},
	"stores/redisstore": {
		"Config": printed, "Sentinel": printed, "Store": printed, "Option": printed,
		"Guard": "a number", "RunIDs": "an interface of the caller's",
	},
	"web/session/redissession": {"Redis": printed, "Option": "a func"},
	"web/session": {
		"Session": printed, "Manager": printed, "Event": printed, "BusyError": printed,
		"Codec": "an interface of the caller's", "Cookie": "the settings of the cookie, without its value",
		"EventKind": "a text of package session", "GracePeriod": "a Duration", "Mode": "a number", "Option": "a setting", "RouteOption": "a setting",
	},
	"web/session/gorillastore": {"Store": printed},
	"web/session/sessionstore": {
		"Key": printed, "Moved": printed, "MovedError": printed, "Change": printed, "Record": printed,
		"Field": "a value of the session", "Op": "a value of the session", "Condition": "a value of the session", "Result": "a version",
		"Blob": "the session as it is stored", "Memory": "the memory of the sessions", "ConflictError": "names of keys inside a session",
		"MemoryOption": "a setting", "OpKind": "a number", "Traits": "facts of a kind of store",
		"Store": "an interface", "BlobStore": "an interface", "Format": "an interface", "Document": "an interface", "Index": "an interface", "IndexedStore": "an interface", "Rules": "an interface",
	},
	"web/session/phpsession": {"Config": "settings"},
	"web/session/scsstore":   {"Store": printed, "Option": "a func"},
	"internal/redisconn": {
		"Server": printed, "DialError": printed,
		"Config": "open to the caller, for older versions of redisstore; New hides its logins", "Sentinel": "as Config",
	},
}

// others has a row for each other package that a program can import.
var others = map[string]string{
	"adapters/certmagiclock":           "has a Locker, and no secret of its own",
	"adapters/gocronlock":              "has a Locker, and no secret of its own",
	"compat/goredis":                   "no types",
	"compat/redislock":                 "a Lock has a driver.Token and a padlock.Key, which hide themselves: its test prints it; Options.Token is the caller's text",
	"compat/redsync":                   "a Mutex has a driver.Token, which hides itself: its test prints it",
	"compat/redsync/redis/goredis/v9":  "no types",
	"web/padlockhttp":                  "has a Locker; answers that it keeps are the caller's data",
	"adapters/watermilllock":           "has a Locker, and no secret of its own",
	"drivertest":                       "for tests",
	"election":                         "has a Locker, and no secret of its own",
	"fence":                            "numbers",
	"observe/history":                  "events, which have no tokens",
	"observe/metrics":                  "numbers",
	"observe/padlockapi":               "TestServe prints an API with a hold",
	"observe/padlockotel":              "events, which have no tokens",
	"observe/padlockweb":               "TestServe prints a Web and its Tokens",
	"observe/sampler":                  "states, which have no tokens",
	"open":                             "opens stores; a URL is the caller's text",
	"open/all":                         "no types",
	"padlocktest":                      "for tests",
	"web/session/phpcodec":             "values of the caller's",
	"web/session/sessiontest":          "for tests",
	"web/session/sessiontest/load":     "for tests",
	"web/session/sqlsession":           "the caller's *sql.DB has the login",
	"web/stampede":                     "has a Locker, and no secret of its own",
	"storekit":                         "no secrets",
	"storekit/advisory":                "keeps the tokens of its holds, where only a walker finds them",
	"storekit/aws":                     "Key has a func; TestStoresWithALogin prints s3store and dynamostore",
	"storekit/decide":                  "the record of a lock as a store writes it: storekit/register gives it hashes of tokens, and memstore is the memory of the locks",
	"storekit/overhttp":                "has no secret of its own; TestStoresWithALogin prints stores over it",
	"storekit/overhttp/overhttptest":   "for tests",
	"storekit/register":                "keeps hashes of tokens; TestStoresWithALogin prints stores over it",
	"storekit/storeurl":                "a Reading has the URL of the caller, which has the password; no store keeps one",
	"stores/dynamostore":               "Config has a func; TestStoresWithALogin prints a store with a login",
	"stores/etcdstore":                 "Config has a func; TestStoresWithALogin prints a store with a login",
	"stores/filestore":                 "TestStoresWithAHold prints a store; only a walker finds the tokens that it has to know",
	"stores/httpstore":                 "Config has a func; TestStoresWithALogin prints a store with a login",
	"stores/leasestore":                "Config has a func; TestStoresWithALogin prints a store with a login",
	"stores/memcachestore":             "Config has a func; TestStoresWithALogin prints a store with a login",
	"stores/memstore":                  "is the memory of the locks: the tokens are its data",
	"stores/mongostore":                "TestStoresWithALogin prints a store with a login; only a walker finds the password, in the client",
	"stores/mysqladvisory":             "TestStoresWithALogin prints a store with a login; only a walker finds the password, in the client",
	"stores/pgadvisory":                "TestStoresWithALogin prints a store with a login; only a walker finds the password, in the client",
	"stores/quorum":                    "TestStoresWithAHold prints a store; only a walker finds the tokens that it has to know",
	"stores/s3store":                   "Config has a func; TestStoresWithALogin prints a store with a login",
	"stores/semstore":                  "TestStoresWithAHold prints a store; only a walker finds the tokens that it has to know",
	"stores/sqlstore":                  "TestStoresWithALogin prints a store with a login; only a walker finds the password, in the client",
	"stores/sqlstore/drivers/mysql":    "opens a sqlstore.Store",
	"stores/sqlstore/drivers/postgres": "opens a sqlstore.Store",
	"stores/sqlstore/drivers/sqlite":   "a file",
	"stores/sqlstore/symfony":          "TestStoresWithAHold prints a store with a hold",
	"stores/zkstore":                   "Config has a func; TestStoresWithALogin prints a store with a login",
}

// TestEveryTypeHasARow finds the exported types in the source. So a new type is printed by a test, or
// has a reason.
func TestEveryTypeHasARow(t *testing.T) {
	seen := map[string]bool{}
	for dir, types := range exportedTypes(t) {
		rows, ok := checked[dir]
		if !ok {
			if seen[dir] = true; others[dir] == "" && len(types) > 0 {
				t.Errorf("%s: the package has no row; give each of its types one in checked, or say in others why not", dir)
			}
			continue
		}
		for _, name := range types {
			if _, ok := rows[name]; !ok {
				t.Errorf("%s.%s: the type has no row in checked; print it in a test while it knows a secret, or say why not", dir, name)
			}
		}
		for name := range rows {
			if !slices.Contains(types, name) {
				t.Errorf("%s.%s: there is no such type", dir, name)
			}
		}
	}
	for dir := range others {
		if !seen[dir] {
			t.Errorf("%s: there is no such package", dir)
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d packages: the test is worth nothing", len(seen))
	}
}

// exportedTypes returns the exported types of the packages that a program can import, and of those
// in checked.
func exportedTypes(t *testing.T) map[string][]string {
	all := map[string][]string{}
	err := fs.WalkDir(os.DirFS(tree), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		switch {
		case d.IsDir() && slices.Contains([]string{"cmd", "lab", "examples", "testdata", ".git", "dist"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		case strings.Contains("/"+dir+"/", "/internal/") && checked[dir] == nil:
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(tree, path), nil, parser.SkipObjectResolution)
		if err != nil || f.Name.Name == "main" {
			return err
		}
		all[dir] = append(all[dir], typesOf(f)...)
		return nil
	})
	noError(t, err)
	return all
}

func typesOf(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			if name := s.(*ast.TypeSpec).Name; name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	return names
}
