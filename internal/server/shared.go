package server

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// sharing is true while Main runs.
var sharing bool

// Main runs the tests of a package and then ends its shared servers. TestMain of a package that
// uses them exits with the result.
func Main(m *testing.M) int {
	sharing = true
	defer sharedPostgres.host.End()
	defer sharedMariaDB.host.End()
	return m.Run()
}

// SharedPostgres makes a database on a server that all tests of the package share. The URL is that
// of the database. Roles, settings and lists of sessions are the whole server's. A test that
// changes these, or stops the server, starts one of its own.
func SharedPostgres(t testing.TB) *Server {
	t.Helper()
	return sharedPostgres.database(t)
}

// SharedMariaDB does the same with MariaDB. The names of GET_LOCK are the whole server's.
func SharedMariaDB(t testing.TB) *Server {
	t.Helper()
	return sharedMariaDB.database(t)
}

// With so many databases, autovacuum would start a process each second.
var sharedPostgres = shared{
	spec: postgresSpec(PostgresOptions{Args: []string{"-c", "max_connections=500", "-c", "autovacuum=off",
		"-c", "synchronous_commit=off", "-c", "full_page_writes=off"}}),
	first: "/postgres?",
	create: func(ctx context.Context, p Place, sql string) error {
		psql, err := sibling(p.Binary, "psql")
		if err != nil {
			return err
		}
		return p.Run(ctx, psql, "-h", p.Dir, "-p", strconv.Itoa(p.Port), "-U", "postgres", "-Xqc", sql)
	},
}

var sharedMariaDB = shared{
	spec:  MariaDBSpec(MariaDBOptions{Env: []string{"TZ=Europe/Berlin"}, Args: []string{"--max-connections=500"}}),
	first: "/mysql",
	create: func(ctx context.Context, p Place, sql string) error {
		return p.Run(ctx, "mariadb", "--no-defaults", "--socket="+p.Path("s.sock"), "--user=root", "--execute="+sql)
	},
}

// A shared server is started for the first test that wants it.
type shared struct {
	spec   Spec
	first  string // what the URL has in place of the name of a test's database
	create func(ctx context.Context, p Place, sql string) error

	host Host // stands in for a test; two shared servers may start at the same time
	once sync.Once
	srv  *Server
	err  error
}

// database makes a database, on the server that the first call starts.
func (s *shared) database(t testing.TB) *Server {
	t.Helper()
	if !sharing {
		t.Fatal("TestMain of this package does not call server.Main, which ends shared servers")
	}
	if _, err := s.spec.find(); err != nil {
		missing(t, err)
	}
	s.once.Do(func() { s.err = s.host.Try(func(t testing.TB) { s.srv = Start(t, s.spec) }) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the shared %s said last:\n%s", s.spec.Name, lastLines(s.srv.Log()))
		}
	})
	name := "t" + strings.ToLower(rand.Text())
	if err := s.create(t.Context(), s.srv.place, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	mine := s.spec
	mine.URL = func(p Place) string {
		return strings.Replace(s.spec.URL(p), s.first, strings.Replace(s.first, strings.Trim(s.first, "/?"), name, 1), 1)
	}
	return &Server{t: t, spec: mine, place: s.srv.place, proc: s.srv.proc, shared: true}
}
