package redisstore_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// TestNodeOfACluster: redis:// with a node of a cluster works for the names of that node only. So
// Status says what to write. A cluster that is used as one gets no such advice, and neither does a
// single server.
func TestNodeOfACluster(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	nodes := server.RedisCluster(t)
	alone := server.Redis(t, server.RedisOptions{})
	for address, want := range map[string]bool{
		"redis://" + nodes[1].Addr(): true, "redis+cluster://" + nodes[1].Addr(): false, "redis://" + alone.Addr(): false,
	} {
		s, err := fromURL(address)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		found, err := s.(*redisstore.Store).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(found, func(f driver.Finding) bool {
			return f.Name == "cluster" && strings.Contains(f.Advice, "redis+cluster://")
		})
		if told != want {
			t.Errorf("%s: advice to use a cluster as one: %v, want %v: %v", address, told, want, found)
		}
	}
}

// lookerACL returns the user of testdata/looker.acl, which may only look. It also returns the
// rights that it has everywhere.
func lookerACL(t *testing.T) (acl string, everywhere []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/looker.acl")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "(")
	for _, m := range regexp.MustCompile(`\+(\S+)`).FindAllStringSubmatch(first, -1) {
		everywhere = append(everywhere, m[1])
	}
	return string(text), everywhere
}

// TestLooker: a user that may only look can call Inspect, List and Status, needs each of its rights
// for that, and cannot change a lock.
func TestLooker(t *testing.T) {
	t.Parallel()
	acl, rights := lookerACL(t)
	srv := server.Redis(t, server.RedisOptions{ACL: acl + "user admin on >PASSWORD ~* &* +@all\nuser default off\n"})
	o := single(srv.Addr())
	o.Username, o.Password, o.ClientSetInfo = "admin", "PASSWORD", rueidis.DisableClientSetInfo
	admin := rawClient(t, o)
	layouts := []string{"?prefix=app:set:", "?prefix=app:string:&layout=string"}
	r := request("held")
	for _, layout := range layouts {
		holder, err := fromURL("redis://admin:PASSWORD@" + srv.Addr() + layout)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		take(t, holder, r)
		if err := holder.(fast.Recorder).Record(t.Context(), r.Name, []fast.Record{{ID: "r1", Text: "x"}}); err != nil {
			t.Fatal(err)
		}
		if layout == layouts[0] {
			take(t, holder, reading(request("read")))
		}
		holder.Close() // so that only the looker sends commands from now on
	}
	askBy(t, admin, "CONFIG", "RESETSTAT")
	var stores []*redisstore.Store
	for _, layout := range layouts {
		stores = append(stores, looks(t, "redis://looker:PASSWORD@"+srv.Addr()+layout))
	}
	unused(t, askBy(t, admin, "INFO", "commandstats"), rights)
	for _, s := range stores {
		if _, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0); err == nil {
			t.Error("a user that may only look ends a hold")
		}
		if _, err := s.Acquire(t.Context(), request("other")); err == nil {
			t.Error("a user that may only look takes a name")
		}
	}
}

// unused checks that the statistics of the server show each right. The client uses PING only when
// it has lost a connection.
func unused(t *testing.T, stats string, rights []string) {
	t.Helper()
	for _, right := range rights {
		if right != "ping" && !strings.Contains(stats, "cmdstat_"+right+":") {
			t.Errorf("the user may %s, and never did", right)
		}
	}
}

// looks opens the store, and calls all that a user who may only look can call.
func looks(t *testing.T, address string) *redisstore.Store {
	t.Helper()
	opened, err := fromURL(address)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*redisstore.Store)
	t.Cleanup(func() { s.Close() })
	for _, name := range []string{"held", "read", "nobody"} {
		if _, err := s.Inspect(t.Context(), name); err != nil {
			t.Errorf("%s: Inspect of %s: %v", address, name, err)
		}
	}
	if states, err := s.List(t.Context(), ""); err != nil || len(states) == 0 {
		t.Errorf("%s: List: %v, %v", address, states, err)
	}
	if all, err := s.Recorded(t.Context(), "", 10); err != nil || len(all) == 0 {
		t.Errorf("%s: Recorded: %v, %v", address, all, err)
	}
	found, err := s.Status(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		if f.Value == driver.Unknown {
			t.Errorf("%s: Status does not know %s", address, f.Name)
		}
	}
	return s
}
