package mysqladvisory_test

import (
	"database/sql"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
)

// openRaw opens the store of a URL.
func openRaw(t *testing.T, raw string) (*mysqladvisory.Store, error) {
	t.Helper()
	u, err := url.Parse(raw)
	noError(t, err)
	return mysqladvisory.FromURL(t.Context(), u, mysql.AdvisoryOpener())
}

// A user with few rights, whose password is in the URL or in a file, can use a table that an
// administrator has made. Without fences, a user needs no rights at all. Otherwise the error says
// what to do. No error shows the password.
func TestRightsAndPasswords(t *testing.T) {
	t.Parallel()
	const secret = "canary-in-a-password"
	srv := server.SharedMariaDB(t)
	dsn := srv.URL()
	name := dsn[strings.LastIndex(dsn, "/")+1:]
	run(t, dsn, "CREATE USER app_"+name+" IDENTIFIED BY '"+secret+"'")
	at := "@" + srv.Addr() + "/"
	app := "mysql+advisory://app_" + name
	refusal := func(raw, want string) {
		t.Helper()
		s, err := openRaw(t, raw)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want it to say %q", strings.ReplaceAll(raw, secret, "…"), err, want)
		}
	}
	refusal(app+":wrong-"+secret+at+"?fences=no", "Access denied")
	refusal(app+":"+secret+at+"?schema="+name, "fences=no")

	s, err := openRaw(t, app+":"+secret+at+"?fences=no&schema="+name)
	noError(t, err)
	defer s.Close()
	r := request("job")
	if g := take(t, s, r); g.Fence != 0 {
		t.Errorf("fence %d", g.Fence)
	}
	statements, err := mysqladvisory.Schema(name)
	noError(t, err)
	run(t, dsn, append(statements, "GRANT SELECT, INSERT, UPDATE ON "+name+".padlock_fences TO app_"+name)...)
	file := filepath.Join(t.TempDir(), "password")
	noError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	fenced, err := openRaw(t, app+at+name+"?password-file="+url.QueryEscape(file))
	noError(t, err)
	defer fenced.Close()
	refused(t, fenced, request("job")) // the same lock, with fences and without
	release(t, s, r)
	old := request("old")
	take(t, fenced, old)
	release(t, fenced, old)
	run(t, dsn, age)
	if _, err := fenced.Prune(t.Context()); !errors.Is(err, driver.ErrUnavailable) { // without the right to DELETE
		t.Errorf("Prune: %v", err)
	}
	g := take(t, fenced, request("job"))
	if g.Fence < uint64(time.Now().Add(-time.Hour).UnixMicro()) {
		t.Errorf("fence %d", g.Fence)
	}
	noError(t, os.WriteFile(file, []byte("wrong-"+secret), 0o600))
	refusal(app+at+name+"?password-file="+url.QueryEscape(file), "Access denied")
}

// The table of fences is lost, and the user may not make it again. The server has granted the lock
// before it refuses to write the fence. The store gives the lock back.
func TestTableLostWithoutTheRight(t *testing.T) {
	t.Parallel()
	srv := server.SharedMariaDB(t)
	dsn := srv.URL()
	name := dsn[strings.LastIndex(dsn, "/")+1:]
	statements, err := mysqladvisory.Schema(name)
	noError(t, err)
	run(t, dsn, append(statements, "CREATE USER "+name, "GRANT SELECT, INSERT, UPDATE ON "+name+".padlock_fences TO "+name)...)
	s := mustOpen(t, name+dsn[strings.Index(dsn, "@"):])
	r := request("job")
	take(t, s, r)
	lock, _ := lockOf(t, dsn, "job")
	release(t, s, r)
	run(t, dsn, "DROP TABLE padlock_fences")
	if _, err := s.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Acquire without the table: %v", err)
	}
	if owner := ask[sql.NullInt64](t, admin(t, srv), "SELECT IS_USED_LOCK(?)", lock); owner.Valid {
		t.Errorf("session %d has the lock after a refusal", owner.Int64)
	}
}

// The same name in another namespace, or in another database, is another lock.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	srv := server.SharedMariaDB(t)
	dsn := srv.URL()
	first := mustOpenURL(t, dsn, "")
	r := request("job")
	take(t, first, r)
	for _, other := range []*mysqladvisory.Store{mustOpenURL(t, dsn, "namespace=a"), mustOpenURL(t, server.SharedMariaDB(t).URL(), "")} {
		o := request("job")
		take(t, other, o)
		if states, err := other.List(t.Context(), ""); err != nil || len(states) != 1 || states[0].Name != "job" {
			t.Errorf("List: %+v, %v", states, err)
		}
		release(t, other, o)
	}
	small := strings.ToUpper(dsn[strings.LastIndex(dsn, "/")+1:])
	same := mustOpenURL(t, dsn, "fences=no&schema="+small) // servers differ in whether this is the same
	refused(t, same, request("job"))
}

// A server that is read-only is refused. If a server becomes read-only later, for example because
// another primary replaces it, the holds end.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	srv := server.MariaDB(t)
	s := mustOpenURL(t, srv.URL(), "loss-delay=5s") // pings the server each second
	g := take(t, s, request("job"))
	run(t, srv.URL(), "SET GLOBAL read_only = 1")
	ends(t, g.Bound)
	if _, err := s.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("Acquire on a server that became read-only: %v", err)
	}
	if s, err := fromURL(t.Context(), srv.URL(), "fences=no"); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "read-only") {
		if err == nil {
			s.Close()
		}
		t.Errorf("a server that is read-only: %v", err)
	}
	run(t, srv.URL(), "SET GLOBAL read_only = 0")
	eventually(t, s, "job") // the server may need a moment to end the session of the lost hold
}

// A node of a Galera cluster is refused, because a lock excludes only the clients of one node.
func TestGalera(t *testing.T) {
	t.Parallel()
	srv := galera(t)
	s, err := fromURL(t.Context(), srv.URL(), "fences=no")
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "Galera") || !strings.Contains(err.Error(), "sqlstore") {
		t.Errorf("a node of a cluster: %v", err)
	}
}

// galera starts a cluster of one node.
func galera(t testing.TB) *server.Server {
	const provider = "/usr/lib/galera/libgalera_smm.so"
	spec := server.MariaDBSpec(server.MariaDBOptions{})
	plain := spec.Args
	spec.Name, spec.ExtraPorts, spec.Package = "galera", 1, "galera-4"
	spec.Args = func(p server.Place) []string {
		listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Extra[0]))
		return append(plain(p), "--wsrep-on=ON", "--wsrep-provider="+provider, "--wsrep-cluster-address=gcomm://", "--binlog-format=ROW",
			"--wsrep-node-address=127.0.0.1", "--wsrep-provider-options=gmcast.listen_addr=tcp://"+listen+";base_host=127.0.0.1;base_port="+strconv.Itoa(p.Extra[0]))
	}
	return server.Start(t, spec)
}
