package secrets

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/session/redissession"
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

// A store that is in use, and a refused login, show no password. The stores are closed before they
// are printed, because their connections change under the hands of a printer.
func TestRedisConnections(t *testing.T) {
	srv := server.Redis(t, server.RedisOptions{Password: marker})
	c := redisstore.Config{Addrs: []string{srv.Addr()}, Credentials: redisstore.Login("", marker)}
	s, err := redisstore.Open(t.Context(), c)
	noError(t, err)
	l := padlock.New(s)
	lock, err := l.Acquire(context.Background(), "job")
	noError(t, err)
	noError(t, lock.Release())
	noError(t, l.Close(t.Context()))
	sessions, err := redissession.Open(t.Context(), c)
	noError(t, err)
	sessions.Close()
	c.Credentials = redisstore.Login("", marker+"wrong")
	_, refused := redisstore.Open(t.Context(), c)
	if !errors.Is(refused, padlock.ErrUnavailable) {
		t.Errorf("a wrong password: %v", refused)
	}
	failed := &redisconn.DialError{}
	errors.As(refused, &failed)
	noneShown(t, map[string]any{"Store": s, "Locker": l, "Redis": sessions, "error": refused, "DialError": failed})
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
