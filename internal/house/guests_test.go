package house

import (
	"fmt"
	"strings"
)

// A guest is a module of another project that one of padlock's modules may import.
type guest struct {
	module string // the directory of padlock's module
	path   string // the import path of the guest; packages below this path are allowed too
	tests  bool   // in tests only
	reason string
}

// guests are the modules of other projects that each of padlock's modules may import, and the
// reasons. A new dependency needs a row with its reason:
//
//	{"stores/pgadvisory", "github.com/jackc/pgx/v5", false, "the client; …"},
var guests = []guest{
	{"cmd/padlock", "github.com/spf13/cobra", false, "verbs, flags, help and completion"},
	{"cmd/padlock", "github.com/spf13/pflag", false, "the types of cobra's flags, for flags with values of padlock's own"},
	{"cmd/padlock", "github.com/rogpeppe/go-internal/testscript", true, "the command's tests are scripts that read like documentation"},
	{"cmd/padlock", "charm.land/bubbletea/v2", false, "the screen of padlock top: keys, resizing and colours of every terminal, Windows too, and a model that tests drive without one"},
	{"cmd/padlock", "github.com/charmbracelet/x/ansi", false, "bubbletea brings it; the width of a text in columns"},
	{"cmd/padlock", "github.com/charmbracelet/x/term", false, "bubbletea brings it; whether a file is a terminal"},
	{"lab", "github.com/anishathalye/porcupine", false, "judges whether a history of the soak or of padlock-verify could come from a lock"},
	{"internal/integration", "github.com/bsm/redislock", false, "a peer in the benchmarks, and in the tests of shared locks"},
	{"lab", "github.com/bsm/redislock", false, "a peer in the benchmarks, and in the tests of shared locks"},
	{"internal/integration", "github.com/go-sql-driver/mysql", true, "a driver that sessions and locks in SQL are tried with"},
	{"internal/integration", "github.com/jackc/pgx/v5", false, "a driver that sessions and locks in SQL are tried and measured with"},
	{"lab", "github.com/jackc/pgx/v5", false, "a driver that sessions and locks in SQL are tried and measured with"},
	{"internal/integration", "modernc.org/sqlite", false, "a database and its driver that sessions and locks in SQL are tried and measured with, in Go alone"},
	{"lab", "modernc.org/sqlite", false, "a database and its driver that sessions and locks in SQL are tried and measured with, in Go alone"},
	{"lab", "go.etcd.io/etcd", false, "the locks of etcd's own client are a peer in the benchmarks, and bare requests their limit"},
	{"lab", "go.uber.org/zap", false, "etcd's client wants a logger of it; it gets one that says nothing"},
	{"internal/integration", "github.com/go-redsync/redsync/v4", false, "a peer in the benchmarks, and in the tests of shared locks"},
	{"lab", "github.com/go-redsync/redsync/v4", false, "a peer in the benchmarks, and in the tests of shared locks"},
	{"lab", "github.com/gofrs/flock", false, "a peer in the benchmarks"},
	{"internal/integration", "github.com/redis/go-redis/v9", false, "the client of the peers redsync and redislock"},
	{"lab", "github.com/redis/go-redis/v9", false, "the client of the peers redsync and redislock"},
	{"lab", "github.com/go-zookeeper/zk", false, "its Lock is a peer in the benchmarks, and alone it is their limit"},
	{"internal/integration", "github.com/redis/rueidis", false, "with rueidislock a peer in the benchmarks, and alone their limit"},
	{"lab", "github.com/redis/rueidis", false, "with rueidislock a peer in the benchmarks, and alone their limit"},
	{"web", "github.com/redis/rueidis", false, "the client; a redisstore brings it anyway"},
	{"stores/redisstore", "github.com/redis/rueidis", false, "the client: it sends what many goroutines ask over one connection, which is most of the speed"},
	{"stores/pgadvisory", "github.com/jackc/pgx/v5", false, "the client, which can watch a connection and cancel a statement"},
	{"stores/etcdstore", "go.etcd.io/etcd", false, "the client, and the types of its requests: a lease with a number of our choice, one renewal"},
	{"stores/etcdstore", "google.golang.org/grpc", false, "the codes of errors, and how fast a lost connection is made again"},
	{"stores/etcdstore", "go.uber.org/zap", false, "the client wants a logger of it; it gets one that says nothing"},
	{"stores/mongostore", "go.mongodb.org/mongo-driver/v2", false, "the client, in Go alone; it finds the primary and repeats a write safely"},
	{"stores/s3store", "github.com/minio/minio-go/v7/pkg/credentials", false, "finds the access key where the tools of AWS find it; it brings 0.7 MB, the whole client 1.5, the configuration of AWS's own 3.0"},
	{"stores/s3store", "github.com/minio/minio-go/v7/pkg/signer", true, "checks the signatures of storekit/aws"},
	{"stores/leasestore", "go.yaml.in/yaml/v3", false, "reads the kubeconfig of kubectl, which is YAML; it requires nothing itself"},
	{"lab", "github.com/johannesboyne/gofakes3", false, "an S3 in memory, for the soak"},
	{"stores/dynamostore", "github.com/minio/minio-go/v7/pkg/credentials", false, "finds the access key where the tools of AWS find it"},
	{"stores/zkstore", "github.com/go-zookeeper/zk", false, "the client, in Go alone, which can move its session to another server"},
	{"stores/sqlstore/drivers", "github.com/go-sql-driver/mysql", false, "the driver for MySQL and MariaDB"},
	{"stores/sqlstore/drivers", "github.com/jackc/pgx/v5", false, "the driver for PostgreSQL, which can LISTEN"},
	{"stores/sqlstore/drivers", "modernc.org/sqlite", false, "SQLite and its driver, in Go alone"},
	{"observe/padlockotel", "go.opentelemetry.io/otel", false, "the API to which it reports; its tests use the SDK"},
	{"web", "github.com/alexedwards/scs/v2", false, "the session library that it is a store for"},
	{"web", "github.com/gorilla/sessions", false, "the session library that it is a store for"},
	{"adapters/gocronlock", "github.com/go-co-op/gocron/v2", false, "the scheduler that it is a locker for"},
	{"adapters/gocronlock", "github.com/google/uuid", true, "gocron's listeners get one"},
	{"compat", "github.com/redis/go-redis/v9", false, "the client whose settings it takes over, and whose types are in the API of redsync and redislock"},
	{"adapters/watermilllock", "github.com/ThreeDotsLabs/watermill", false, "the library that it has middleware for"},
	{"internal/integration", "github.com/alicebob/miniredis/v2", false, "a Redis in the process of a user's test: docs/test-your-code.md"},
	{"internal/integration/adapters", "github.com/ThreeDotsLabs/watermill", false, "a tool of docs/adapters.md"},
	{"internal/integration/adapters", "github.com/caddyserver/certmagic", false, "a tool of docs/adapters.md"},
	{"internal/integration/adapters", "github.com/go-co-op/gocron/v2", false, "a tool of docs/adapters.md"},
	{"internal/integration/adapters", "github.com/hibiken/asynq", false, "a tool of docs/adapters.md"},
	{"internal/integration/adapters", "github.com/pressly/goose/v3", false, "a tool of docs/adapters.md"},
	{"internal/integration/adapters", "github.com/riverqueue/river", false, "a tool of docs/adapters.md"},
	{"internal/integration/adapters", "github.com/robfig/cron/v3", false, "a tool of docs/adapters.md"},
	{"internal/integration/adapters", "google.golang.org/grpc", false, "a tool of docs/adapters.md"},
	{"internal/integration/adapters", "google.golang.org/genproto", false, "gRPC says with it when a client may come again"},
	{"internal/integration/adapters", "google.golang.org/protobuf", false, "gRPC says with it when a client may come again"},
	{"internal/integration/adapters", "github.com/golang-migrate/migrate/v4", false, "a tool of docs/adapters.md"},
	{"internal/integration/adapters", "go.yaml.in/yaml/v3", true, "reads the jobs of docs/adapters.md"},
	{"internal/integration/adapters", "github.com/google/uuid", false, "gocron's listeners get one"},
	{"internal/integration/adapters", "go.uber.org/zap", true, "certmagic wants a logger of it; it gets one that says nothing"},
	{"internal/integration/frameworks", "github.com/alexedwards/scs/v2", false, "a program that moves from it to padlock"},
	{"internal/integration/frameworks", "github.com/gorilla/sessions", false, "a program that moves from it to padlock"},
	{"internal/integration/frameworks", "github.com/gorilla/mux", false, "a router that sessions are tried in"},
	{"internal/integration/frameworks", "github.com/go-chi/chi/v5", false, "a router that sessions are tried in"},
	{"internal/integration/frameworks", "github.com/gin-gonic/gin", false, "a framework that sessions are tried in"},
	{"internal/integration/frameworks", "github.com/labstack/echo/v4", false, "a framework that sessions are tried in"},
}

// judgeGuest returns the reason why a file may not import a module of another project, or "".
func judgeGuest(f *houseFile, target string) string {
	for _, g := range guests {
		if g.module != f.module || target != g.path && !strings.HasPrefix(target, g.path+"/") {
			continue
		}
		if g.tests && !f.test() {
			return "its row in the table of guests allows it in tests only"
		}
		return ""
	}
	if f.module == "." {
		return "the root module imports the standard library and itself, tests included, so that `go get` of it brings nothing else; put this into a module of its own or into internal/integration"
	}
	return "it is not in the table of guests; every dependency has a row with its reason there, internal/house/guests_test.go"
}

// checkGuests reports rows that nothing needs any more.
func checkGuests(files []*houseFile, guests []guest) []string {
	used := map[guest]bool{}
	for _, f := range files {
		if f.ast == nil {
			continue
		}
		for _, spec := range f.ast.Imports {
			target := strings.Trim(spec.Path.Value, "`\"")
			for _, g := range guests {
				if g.module == f.module && (target == g.path || strings.HasPrefix(target, g.path+"/")) {
					used[g] = true
				}
			}
		}
	}
	var found []string
	for _, g := range guests {
		if !used[g] {
			found = append(found, fmt.Sprintf("internal/house/guests_test.go: nothing in %s imports %s any more: drop its row", g.module, g.path))
		}
		if g.reason == "" {
			found = append(found, fmt.Sprintf("internal/house/guests_test.go: %s has no reason to be in %s", g.path, g.module))
		}
	}
	return found
}
