package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// A store that is opened with the settings of a rueidis client takes its locks where the client works.
func TestFromRueidis(t *testing.T) {
	t.Parallel()
	closed := server.Redis(t, server.RedisOptions{ACL: "user app on >secret ~* &* +@all\nuser default off\n"})
	cert := server.NewTLS(t)
	secure, nodes := server.Redis(t, server.RedisOptions{TLS: cert}), server.RedisCluster(t)
	login := func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		if c.Address.String() == "" {
			return rueidis.AuthCredentials{}, errors.New("no address")
		}
		return rueidis.AuthCredentials{Username: "app", Password: "secret"}, nil
	}
	var dialled atomic.Int32
	dial := func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		dialled.Add(1)
		return (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, "tcp", addr)
	}
	for name, o := range map[string]rueidis.ClientOption{
		"password": {InitAddress: []string{closed.Addr()}, Username: "app", Password: "secret", SelectDB: 3, ClientName: "web"},
		"function": {InitAddress: []string{closed.Addr()}, AuthCredentialsFn: login, SelectDB: 3},
		"TLS":      {InitAddress: []string{secure.Addr()}, TLSConfig: cert.Client()},
		"dialer":   {InitAddress: []string{secure.Addr()}, TLSConfig: cert.Client(), DialCtxFn: dial},
		"cluster":  {InitAddress: []string{nodes[0].Addr(), nodes[1].Addr()}},
	} {
		client, err := rueidis.NewClient(o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer client.Close()
		before := dialled.Load()
		c, err := redisstore.FromRueidis(o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		store, err := redisstore.Open(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		l := padlock.New(store)
		if _, err := l.Acquire(t.Context(), name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n, err := client.Do(t.Context(), client.B().Exists().Key(name).Build()).AsInt64(); err != nil || n != 1 {
			t.Errorf("%s: rueidis does not see the lock: %d, %v", name, n, err)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "dialer" && dialled.Load() == before {
			t.Error("the store did not take the dialer")
		}
	}
}

// Sentinels are taken over, and what no store can do is refused.
func TestFromRueidisRefuses(t *testing.T) {
	two := []string{"s1:26379", "s2:26379"}
	c, err := redisstore.FromRueidis(rueidis.ClientOption{InitAddress: two, Sentinel: rueidis.SentinelOption{MasterSet: "set", Password: "x"}})
	if err != nil || c.Cluster || c.Sentinel.MasterName != "set" || c.Sentinel.Credentials == nil || c.Credentials != nil {
		t.Errorf("sentinels: %+v, %v", c, err)
	}
	if c, err := redisstore.FromRueidis(rueidis.ClientOption{InitAddress: two, ForceSingleClient: true}); err != nil || c.Cluster {
		t.Errorf("one server with two addresses: %+v, %v", c, err)
	}
	for what, o := range map[string]rueidis.ClientOption{
		"a replica":        {InitAddress: two, ReplicaOnly: true},
		"two kinds of TLS": {InitAddress: two, TLSConfig: &tls.Config{}, Sentinel: rueidis.SentinelOption{MasterSet: "set"}},
	} {
		if _, err := redisstore.FromRueidis(o); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
