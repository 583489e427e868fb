package symfony

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/sqlite"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
)

// A database is a running database for the tests. Each test has a table of its own in it.
type database struct {
	rawURL   string // without parameters of padlock's own
	opener   sqlstore.Opener
	pdo, url string // as PHP names it: for PDO and for Doctrine
	user     string // of PDO
}

var openers = []sqlstore.Opener{postgres.Opener(), mysql.Opener(), sqlite.Opener()}

var engines = map[string]func(testing.TB) database{
	"postgres": func(t testing.TB) database {
		return onPostgres(server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "max_connections=300"}}))
	},
	"mariadb": func(t testing.TB) database { return onMariaDB(server.MariaDB(t, "TZ=Europe/Berlin")) },
	"sqlite": func(t testing.TB) database {
		path := filepath.Join(t.TempDir(), "new", "shop.db")
		return database{"sqlite://" + path + "?_pragma=busy_timeout(10000)", sqlite.Opener(), "sqlite:" + path, "sqlite:///" + path, ""}
	},
}

func onPostgres(srv *server.Server) database {
	return database{srv.URL(), postgres.Opener(), "pgsql:" + hostPort(srv) + ";dbname=postgres", "pgsql://postgres@" + srv.Addr() + "/postgres", "postgres"}
}

func onMariaDB(srv *server.Server) database {
	return database{"mysql://root@" + srv.Addr() + "/mysql", mysql.Opener(), "mysql:" + hostPort(srv) + ";dbname=mysql", "mysql://root@" + srv.Addr() + "/mysql", "root"}
}

func hostPort(srv *server.Server) string {
	u := url.URL{Host: srv.Addr()}
	return "host=" + u.Hostname() + ";port=" + u.Port()
}

func (d database) open(ctx context.Context, layout, table string, opts ...symfony.Option) (*symfony.Store, error) {
	u, err := url.Parse(d.rawURL)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	q.Set("layout", layout)
	q.Set("db_table", table)
	u.RawQuery = q.Encode()
	return symfony.FromURL(ctx, u, d.opener, opts...)
}

func (d database) must(t testing.TB, layout, table string, opts ...symfony.Option) *symfony.Store {
	t.Helper()
	s, err := d.open(t.Context(), layout, table, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// raw connects to the database without padlock's statements.
func (d database) raw(t testing.TB) *sql.DB {
	t.Helper()
	u, err := url.Parse(d.rawURL)
	if err != nil {
		t.Fatal(err)
	}
	db, _, err := d.opener.Open(u, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// hold takes a name for a new token, which it returns.
func hold(t testing.TB, s driver.Store, name string) (token string) {
	t.Helper()
	token = newToken()
	if _, err := s.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute}); err != nil {
		t.Fatalf("Acquire of %q: %v", name, err)
	}
	return token
}

func newToken() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// TestAll starts each engine once, and runs all tests that share it.
func TestAll(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	started := map[string]database{}
	for name, start := range engines {
		wg.Go(func() {
			d := start(t)
			mu.Lock()
			defer mu.Unlock()
			started[name] = d
		})
	}
	wg.Wait()
	for name, f := range map[string]func(*testing.T, database){
		"contract":                 contract,
		"newer format":             newerFormat,
		"rows of the other layout": rowsOfTheOtherLayout,
		"odd tables":               oddTables,
		"old rows":                 oldRows,
		"late statement":           lateStatement,
		"killed holder":            killedHolder,
	} {
		for engine, d := range started {
			if d.opener.Engine == sqlstore.SQLite {
				d = engines[engine](t) // a file for each test, since a file has one writer at a time
			}
			wg.Go(func() { t.Run(name+"/"+engine, func(t *testing.T) { f(t, d) }) }) // they wait more than they work
		}
	}
	wg.Wait()
}

// contract runs the suite in the layout of Symfony 7.4; TestFaults runs it in the other one. On
// MySQL all names are long: MySQL ignores spaces at the end of a plain name, so the store refuses
// such names, which mysqlTexts checks.
func contract(t *testing.T, d database) {
	const layout, table = "symfony", "contract"
	hold(t, d.must(t, layout, table), strings.Repeat("a long name ", 6)) // a name that List cannot know
	prefix := ""
	if d.opener.Engine == sqlstore.MySQL {
		prefix = strings.Repeat("long ", 13)
	}
	open := func(ctx context.Context) (driver.Store, error) {
		s, err := d.open(ctx, layout, table)
		return hashed{s}, err
	}
	drivertest.Run(t, drivertest.Harness{Open: open, Slow: true, Parallel: 8, Anonymous: true, Prefix: prefix})
}

// hashed is a store with names in its table that List cannot know.
type hashed struct{ driver.Store }

func (h hashed) Unwrap() driver.Store { return h.Store }

func (h hashed) Guarantees() driver.Guarantees {
	g := h.Store.Guarantees()
	g.Lacks |= driver.AbilityList
	return g
}
