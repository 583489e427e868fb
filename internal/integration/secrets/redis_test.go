package secrets

import (
	"net/url"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// noneShown fails the test if one of the values shows marker.
func noneShown(t *testing.T, values map[string]any) {
	t.Helper()
	for typ, v := range values {
		for _, how := range shown([]string{marker}, v) {
			t.Errorf("%s (%T): %s", typ, v, how)
		}
	}
}

// A Config, and what is made of it before there is a connection, shows no password.
func TestRedisConfig(t *testing.T) {
	watched := redisstore.Sentinel{MasterName: "m", Credentials: redisstore.Login("watcher", marker)}
	c := redisstore.Config{Addrs: []string{"h:1"}, Credentials: redisstore.Login("app", marker), Sentinel: watched}
	older := redisconn.Config{Addrs: []string{"h:1"}, User: "app", Password: marker, Sentinel: redisconn.Sentinel{MasterName: "m", User: "watcher", Password: marker}}
	made, err := redisconn.New(older)
	noError(t, err)
	opened, err := redisstore.Open(t.Context(), c, redisstore.Lazy())
	noError(t, err)
	defer opened.Close()
	u, err := url.Parse("redis+sentinel://app:" + marker + "@h/m?lazy=yes&sentinel-password=" + marker)
	noError(t, err)
	read, err := redisstore.FromURL(t.Context(), u)
	noError(t, err)
	defer read.Close()
	noneShown(t, map[string]any{
		"Config": c, "Sentinel": watched, "Server": made, "Store": opened, "Store from a URL": read,
		"Option": redisstore.Prefix("p:"), "Locker": padlock.New(opened, padlock.KeepStoreOpen()),
	})
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
