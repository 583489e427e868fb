package zkstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

func contractInSymfonysLayout(t *testing.T, srv *server.Server) {
	server.Thorough(t)
	foreign := rawConn(t, srv.Addr())
	drivertest.Run(t, drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			return openStore(ctx, srv.Addr(), zkstore.SymfonyLayout())
		},
		Anonymous: true,
		Slow:      true,
		Parallel:  16,
		Foreign: func(name string) (release func() error, err error) {
			_, err = foreign.Create("/"+name, []byte("token of another program"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			return func() error { return foreign.Delete("/"+name, -1) }, err
		},
	})
}

// A lock is the node that Symfony's ZookeeperStore makes: ephemeral, with the token as its data,
// and open to everybody. The names of the nodes in this test come from a run of PHP.
func symfonysNodes(t *testing.T, srv *server.Server) {
	s, conn := mustOpen(t, srv.Addr(), zkstore.SymfonyLayout()), rawConn(t, srv.Addr())
	for name, path := range map[string]string{
		"report":      "/report",
		"report/42:x": "/report-42:x-7d6435032249689366e2bf0caaead526f9311cdf",
		"a b":         "/a b",
		"é":           "/é",
	} {
		r := request(name)
		take(t, s, r)
		data, stat, err := conn.Get(path)
		if err != nil || string(data) != r.Token.Text() || stat.EphemeralOwner == 0 {
			t.Errorf("%q: the node %s has %q and owner %d, %v", name, path, data, stat.EphemeralOwner, err)
			continue
		}
		if acl, _, err := conn.GetACL(path); err != nil || len(acl) != 1 || acl[0] != zk.WorldACL(zk.PermAll)[0] {
			t.Errorf("%q: the ACL is %v, %v", name, acl, err)
		}
		release(t, s, r)
		if exists, _, err := conn.Exists(path); err != nil || exists {
			t.Errorf("%q: after its release the node is there: %v, %v", name, exists, err)
		}
	}
}

// PHP compares the token and then deletes the node, which may be another holder's by then. If
// padlock loses a lock in this way, it does not delete the next holder's node.
func symfonysNextHolder(t *testing.T, srv *server.Server) {
	s, conn := mustOpen(t, srv.Addr(), zkstore.SymfonyLayout()), rawConn(t, srv.Addr())
	r := request("symfonysNextHolder")
	g := take(t, s, r)
	if err := conn.Delete("/symfonysNextHolder", -1); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Create("/symfonysNextHolder", []byte("php"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Extend(t.Context(), "symfonysNextHolder", r.Token.Text(), 0); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend: %v", err)
	}
	if g.Bound.Err() == nil {
		t.Error("the hold has not ended")
	}
	if out, err := s.Release(t.Context(), "symfonysNextHolder", r.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
		t.Errorf("Release: %v, %v", out, err)
	}
	if data, _, err := conn.Get("/symfonysNextHolder"); string(data) != "php" {
		t.Errorf("the next holder's node has %q, %v", data, err)
	}
}

// rawConn returns a connection of the ZooKeeper client, without padlock.
func rawConn(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{addr}, patient, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// A node that is no lock, where a lock's node would be, is neither changed nor deleted. Every verb
// names it.
func nodesOfOthers(t *testing.T, srv *server.Server) {
	conn := rawConn(t, srv.Addr())
	if _, err := conn.Create("/app", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		opts       []zkstore.Option
		path, text string
		flags      int32
	}{
		{[]zkstore.Option{zkstore.SymfonyLayout()}, "/theirs", "settings", 0},
		{[]zkstore.Option{zkstore.SymfonyLayout()}, "/theirs", "", zk.FlagEphemeral},
		{[]zkstore.Option{zkstore.Root("/app")}, "/app/theirs", "settings", 0},
		{[]zkstore.Option{zkstore.Root("/app")}, "/app/theirs", `{"a":1}`, 0},
	} {
		s := mustOpen(t, srv.Addr(), c.opts...)
		if _, err := conn.Create(c.path, []byte(c.text), c.flags, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		want := func(verb string, err error) {
			t.Helper()
			if err == nil || errors.Is(err, driver.ErrHeld) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("%d: %s: %v", i, verb, err)
			}
		}
		_, err := s.Acquire(t.Context(), request("theirs"))
		want("Acquire", err)
		_, err = s.Inspect(t.Context(), "theirs")
		want("Inspect", err)
		_, err = s.Break(t.Context(), "theirs", 0)
		want("Break", err)
		if out, err := s.Release(t.Context(), "theirs", "token", 0); out != driver.OutcomeGone || err != nil {
			t.Errorf("%d: Release: %v, %v", i, out, err)
		}
		if data, stat, err := conn.Get(c.path); err != nil || string(data) != c.text || stat.Version != 0 {
			t.Errorf("%d: the node has %q, %+v, %v", i, data, stat, err)
		}
		if err := conn.Delete(c.path, -1); err != nil {
			t.Error(err)
		}
	}
}
