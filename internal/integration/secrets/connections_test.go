//go:build !race

package secrets

import (
	"context"
	"errors"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/web/session/redissession"
)

// A store that is in use, and a refused login, show no password. The stores are closed before they
// are printed. The client's goroutines end a little later than its Close returns, and the race
// detector would report that the walker reads their fields.
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
