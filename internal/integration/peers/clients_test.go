package peers

import (
	"context"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
)

// configOf is the function that docs/stores/redis.md shows to users of go-redis.
func configOf(o *redis.Options) redisstore.Config {
	return redisstore.Config{
		Addrs: []string{o.Addr}, DB: o.DB, ClientName: o.ClientName, TLS: o.TLSConfig,
		User: o.Username, Password: o.Password, Credentials: o.CredentialsProviderContext,
	}
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
		s, err := redisstore.Open(t.Context(), configOf(o), redisstore.RememberRunIDs(runIDs{}), redisstore.Prefix(name+":"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer s.Close()
		take(t, s, request("job"))
		if n, err := client.Exists(t.Context(), name+":job").Result(); err != nil || n != 1 {
			t.Errorf("%s: go-redis does not see the lock: %d, %v", name, n, err)
		}
	}
}
