package peers

import (
	"context"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Functions to copy, for users who have a client. docs/stores/redis.md has the first one, and links
// to the others; pages:TestFunctions compares it.

func fromServer(o *redis.Options) redisstore.Config {
	c := redisstore.Config{
		Addrs: []string{o.Addr}, DB: o.DB, ClientName: o.ClientName, TLS: o.TLSConfig,
		Credentials: o.CredentialsProviderContext,
	}
	if c.Credentials == nil {
		c.Credentials = redisstore.Login(o.Username, o.Password)
	}
	return c
}

func fromSentinels(o *redis.FailoverOptions) redisstore.Config {
	c := redisstore.Config{
		Addrs: o.SentinelAddrs, DB: o.DB, ClientName: o.ClientName, TLS: o.TLSConfig,
		Credentials: o.CredentialsProviderContext,
		Sentinel:    redisstore.Sentinel{MasterName: o.MasterName, Credentials: redisstore.Login(o.SentinelUsername, o.SentinelPassword)},
	}
	if c.Credentials == nil {
		c.Credentials = redisstore.Login(o.Username, o.Password)
	}
	return c
}

func fromCluster(o *redis.ClusterOptions) redisstore.Config {
	c := redisstore.Config{
		Addrs: o.Addrs, Cluster: true, ClientName: o.ClientName, TLS: o.TLSConfig,
		Credentials: o.CredentialsProviderContext,
	}
	if c.Credentials == nil {
		c.Credentials = redisstore.Login(o.Username, o.Password)
	}
	return c
}

func fromRueidis(o rueidis.ClientOption) redisstore.Config {
	c := redisstore.Config{
		Addrs: o.InitAddress, Cluster: len(o.InitAddress) > 1 && o.Sentinel.MasterSet == "",
		DB: o.SelectDB, ClientName: o.ClientName, TLS: o.TLSConfig, Credentials: redisstore.Login(o.Username, o.Password),
		Sentinel: redisstore.Sentinel{MasterName: o.Sentinel.MasterSet, Credentials: redisstore.Login(o.Sentinel.Username, o.Sentinel.Password)},
	}
	if f := o.AuthCredentialsFn; f != nil {
		c.Credentials = func(context.Context) (user, password string, err error) {
			login, err := f(rueidis.AuthCredentialsContext{})
			return login.Username, login.Password, err
		}
	}
	return c
}

// TestSettingsOfGoRedis opens a store with the settings of a go-redis client, by password and by a
// function: both work in the same database.
func TestSettingsOfGoRedis(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{ACL: "user app on >secret ~* &* +@all\nuser default off\n"})
	login := func(context.Context) (string, string, error) { return "app", "secret", nil }
	for name, o := range map[string]*redis.Options{
		"password": {Addr: srv.Addr(), Username: "app", Password: "secret", DB: 3, ClientName: "web"},
		"function": {Addr: srv.Addr(), CredentialsProviderContext: login, DB: 3, ClientName: "web"},
	} {
		client := redis.NewClient(o)
		defer client.Close()
		takeAt(t, fromServer(o), name)
		if n, err := client.Exists(t.Context(), name+":job").Result(); err != nil || n != 1 {
			t.Errorf("%s: go-redis does not see the lock: %d, %v", name, n, err)
		}
	}
}

// TestSettingsOfRueidis is the same for a rueidis client.
func TestSettingsOfRueidis(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{ACL: "user app on >secret ~* &* +@all\nuser default off\n"})
	login := func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		return rueidis.AuthCredentials{Username: "app", Password: "secret"}, nil
	}
	for name, o := range map[string]rueidis.ClientOption{
		"password": {InitAddress: []string{srv.Addr()}, Username: "app", Password: "secret", SelectDB: 3, ClientName: "web"},
		"function": {InitAddress: []string{srv.Addr()}, AuthCredentialsFn: login, SelectDB: 3, ClientName: "web"},
	} {
		client, err := rueidis.NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		takeAt(t, fromRueidis(o), name)
		if n, err := client.Do(t.Context(), client.B().Exists().Key(name+":job").Build()).AsInt64(); err != nil || n != 1 {
			t.Errorf("%s: rueidis does not see the lock: %d, %v", name, n, err)
		}
	}
}

// TestSettingsOfSentinelsAndClusters: a store is opened with the settings of a client that finds
// its servers.
func TestSettingsOfSentinelsAndClusters(t *testing.T) {
	t.Parallel()
	c := fromSentinels(&redis.FailoverOptions{MasterName: "set", SentinelAddrs: []string{"s1:26379"}, SentinelPassword: "x", Password: "y"})
	if c.Sentinel.MasterName != "set" || passwordOf(t, c.Sentinel.Credentials) != "x" || passwordOf(t, c.Credentials) != "y" || c.Addrs[0] != "s1:26379" {
		t.Errorf("sentinels of go-redis: %+v", c)
	}
	r := fromRueidis(rueidis.ClientOption{InitAddress: []string{"s1:26379", "s2:26379"}, Sentinel: rueidis.SentinelOption{MasterSet: "set"}})
	if r.Cluster || r.Sentinel.MasterName != "set" {
		t.Errorf("sentinels of rueidis: %+v", r)
	}
	for name, c := range map[string]redisstore.Config{
		"go-redis, sentinels": c, "rueidis, sentinels": r,
		"go-redis, cluster": fromCluster(&redis.ClusterOptions{Addrs: []string{"n1:6379"}, Password: "y"}),
		"rueidis, cluster":  fromRueidis(rueidis.ClientOption{InitAddress: []string{"n1:6379", "n2:6379"}}),
	} {
		s, err := redisstore.Open(t.Context(), c, redisstore.Lazy())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s.Close()
	}
}

// takeAt takes the lock "job" in a store that is closed with the test.
func takeAt(t *testing.T, c redisstore.Config, prefix string) driver.Grant {
	t.Helper()
	s, err := redisstore.Open(t.Context(), c, redisstore.RememberRunIDs(runIDs{}), redisstore.Prefix(prefix+":"))
	if err != nil {
		t.Fatalf("%s: %v", prefix, err)
	}
	t.Cleanup(func() { s.Close() })
	return take(t, s, request("job"))
}

func passwordOf(t *testing.T, ask func(context.Context) (string, string, error)) string {
	_, password, err := ask(t.Context())
	if err != nil {
		t.Error(err)
	}
	return password
}
