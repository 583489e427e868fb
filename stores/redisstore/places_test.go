package redisstore_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

func fromURL(raw string, opts ...redisstore.Option) func(ctx context.Context) (driver.Store, error) {
	return func(ctx context.Context) (driver.Store, error) {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, err
		}
		s, err := redisstore.FromURL(ctx, u, fresh(opts)...)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// TestACL runs the whole suite as the user that the documentation shows, with
// a prefix.
func TestACL(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	acl, err := os.ReadFile("testdata/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	srv := server.Redis(t, server.RedisOptions{ACL: string(acl)})
	address := "redis://padlock:PASSWORD@" + srv.Addr()
	for _, layout := range []string{"set", "string"} {
		t.Run(layout, func(t *testing.T) {
			drivertest.Run(t, drivertest.Harness{Open: fromURL(address + "?prefix=app:" + layout[:3] + "&layout=" + layout)})
		})
	}
	s, err := fromURL(address + "?prefix=app:")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := single(srv.Addr())
	o.Username, o.Password = "padlock", "PASSWORD"
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	c := rawClient(t, o)
	r := request("beside an application")
	take(t, s, r)
	askBy(t, c, "ZADD", "app:"+r.Name, "1", "user:1")
	free(t, s, r)
	if rest := setAt(t, c, "app:"+r.Name); rest != "-1 user:1=1" {
		safety.Broken(t, "the release left %q of what the application has put there", rest)
	}
	used := askBy(t, c, "INFO", "commandstats")
	for _, right := range regexp.MustCompile(`\+(\S+)`).FindAllStringSubmatch(string(acl), -1) {
		if !strings.Contains(used, "cmdstat_"+right[1]+":") {
			t.Errorf("the user may %s, and never did", right[1])
		}
	}
	outside, err := fromURL(address)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	_, err = outside.Acquire(t.Context(), request("outside of the prefix"))
	wantIs(t, err, driver.ErrUnavailable, "Acquire of a key that the user may not touch")
}

// clusterRights are the rights that a user needs in a cluster in addition to those of users.acl.
const clusterRights = "+cluster|slots +cluster|shards +asking +ssubscribe +spublish +pubsub|shardnumsub"

// TestACLIsDocumented compares the documentation with the file under test.
func TestACLIsDocumented(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "stores", "redis.md"))
	if os.IsNotExist(err) {
		t.Skip("the documentation is not part of the module")
	}
	if err != nil {
		t.Fatal(err)
	}
	acl, err := os.ReadFile("testdata/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(acl), "\n")
	page := strings.Join(strings.Fields(string(docs)), " ")
	if !strings.Contains(page, line) {
		t.Error("docs/stores/redis.md does not show the user of testdata/users.acl")
	}
	if looker, _ := lookerACL(t); !strings.Contains(page, strings.TrimSpace(looker)) {
		t.Error("docs/stores/redis.md does not show the user of testdata/looker.acl")
	}
	if !strings.Contains(page, sentinelRights) {
		t.Error("docs/stores/redis.md does not show the rights of TestSentinelHasItsOwnLogin")
	}
	if !strings.Contains(page, clusterRights) {
		t.Error("docs/stores/redis.md does not show the rights of TestCluster")
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Socket: true})
	for _, address := range []string{"redis+unix://" + server.RedisSocket(srv) + "?db=3", "redis://" + server.RedisSocket(srv)} {
		waitAndTake(t, fromURL(address))
	}
	if n := ask(t, srv, "DBSIZE"); n == "0" {
		t.Error("nothing is in database 0")
	}
}

// waitAndTake hands a name over from one store to another.
func waitAndTake(t *testing.T, open func(ctx context.Context) (driver.Store, error)) {
	t.Helper()
	var stores []*redisstore.Store
	for range 2 {
		s, err := open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores = append(stores, s.(*redisstore.Store))
	}
	r := request("job")
	first := take(t, stores[0], r)
	w := waits(t, stores[1], "job")
	free(t, stores[0], r)
	g, _ := w.got()
	safety.Rises(t, g.Fence, first.Fence)
	free(t, stores[1], w.r)
}

func TestTLS(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	cert := server.NewTLS(t)
	srv := server.Redis(t, server.RedisOptions{TLS: cert, Password: "p"})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, cert.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	waitAndTake(t, fromURL("rediss://:p@"+srv.Addr()+"?ca="+ca))
	_, err := fromURL("rediss://:p@" + srv.Addr())(t.Context())
	wantIs(t, err, driver.ErrUnavailable, "Open without the authority's certificate")
	_, err = fromURL("redis://:p@" + srv.Addr())(t.Context())
	wantIs(t, err, driver.ErrUnavailable, "Open without TLS")

	s, err := fromURL("rediss://:p@" + srv.Addr() + "?tls-verify=no")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	srv.Pause()
	began := time.Now()
	if _, err = s.Acquire(context.Background(), request("a")); err == nil || time.Since(began) > 2*driver.MaxSilence { // the machine may be busy
		t.Errorf("a silent server, by TLS, is noticed after %v: %v", time.Since(began), err)
	}
	srv.Resume()
}

// TestCluster runs the whole suite on a cluster of three primaries.
func TestCluster(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	nodes := server.RedisCluster(t)
	address := "redis+cluster://" + nodes[0].Addr() + "?node=" + nodes[1].Addr()
	drivertest.Run(t, drivertest.Harness{Open: fromURL(address)})
	t.Run("string", func(t *testing.T) {
		drivertest.Run(t, drivertest.Harness{Open: fromURL(address + "&layout=string&prefix=s:")})
	})
	s, err := fromURL(address)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// The rights that a cluster needs in addition to those of a single server.
	acl, err := os.ReadFile("testdata/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(acl), "\n")
	for _, n := range nodes {
		ask(t, n, append([]string{"ACL", "SETUSER"}, strings.Fields(line + " " + clusterRights)[1:]...)...)
	}
	waitAndTake(t, fromURL("redis+cluster://padlock:PASSWORD@"+nodes[1].Addr()+"?prefix=app:"))
	// Without the setting Cluster, names of other nodes are refused, and the error says what to do.
	one := opened(t, nodes[1].Addr())
	eventually(t, "an error for a name of another node", func() bool {
		_, err := one.Acquire(t.Context(), request("single"+newToken()))
		return errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "open a cluster with redis+cluster://")
	})
	// The locks are spread over all nodes. If a node is away, only the locks of that node are out
	// of reach.
	nodes[2].Kill()
	granted := 0
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if _, err := s.Acquire(ctx, request("job"+strconv.Itoa(i))); err == nil {
			granted++
		}
		cancel()
	}
	if granted == 0 || granted == 30 {
		t.Errorf("with one of three nodes away, %d of 30 locks were granted", granted)
	}
	if _, err := s.(*redisstore.Store).Status(t.Context()); err != nil {
		t.Errorf("Status with a node away: %v", err)
	}
}

// sentinel starts a primary, a replica and the sentinel that watches them.
func sentinel(t *testing.T) (primary, replica, watch *server.Server) {
	primary = server.Redis(t, server.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	replica = server.Redis(t, server.RedisOptions{Args: []string{"--replicaof", "127.0.0.1 " + portOf(primary)}})
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(ask(t, replica, "INFO", "replication"), "master_link_status:up")
	})
	watch = server.Sentinel(t, primary)
	c := rawClient(t, single(watch.Addr()))
	eventually(t, "the sentinel knows the replica", func() bool {
		m, err := c.Do(t.Context(), c.B().SentinelReplicas().Master("main").Build()).ToArray()
		return err == nil && len(m) == 1
	})
	noticeAfter(t, watch, time.Minute) // a busy machine is no reason for a failover
	return primary, replica, watch
}

// noticeAfter sets how long the primary must be silent before the sentinel begins a failover.
func noticeAfter(t *testing.T, watch *server.Server, d time.Duration) {
	t.Helper()
	ask(t, watch, "SENTINEL", "SET", "main", "down-after-milliseconds", strconv.FormatInt(d.Milliseconds(), 10))
}

// TestSentinel fails over: fences go on growing, even if locks are lost (T-R5).
func TestSentinel(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	primary, _, watch := sentinel(t)
	open := fromURL("redis+sentinel://" + watch.Addr() + "/main")
	waitAndTake(t, open)
	s, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := request("job")
	first := take(t, s, r)
	primary.Kill()
	noticeAfter(t, watch, 2*time.Second)
	var g driver.Grant
	eventually(t, "the replica takes over", func() bool {
		g, err = s.Acquire(t.Context(), request("other job"))
		return err == nil
	})
	if _, err := s.Release(t.Context(), "job", r.Token.Text(), 0); err != nil {
		t.Errorf("Release at the new primary: %v", err)
	}
	g = take(t, s, request("job"))
	safety.Rises(t, g.Fence, first.Fence)
	waitAndTake(t, fromURL("redis+sentinel://"+watch.Addr()+"/main?prefix=again:"))
}

// TestProtocol2 uses a server that does not know RESP3.
func TestProtocol2(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Args: []string{"--rename-command", "HELLO", ""}})
	waitAndTake(t, func(ctx context.Context) (driver.Store, error) {
		s, err := redisstore.Open(ctx, at(srv.Addr()), fresh(nil)...)
		if err != nil {
			return nil, err
		}
		return s, nil
	})
}
