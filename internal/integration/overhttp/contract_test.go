package overhttp

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// The connections to the server of the API break, and lose replies. Redis restarts, and falls
// silent.
func TestContractOverRedis(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Persist: true})
	store, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{srv.Addr()}}, redisstore.Durable(), redisstore.RestartGuard(redisstore.GuardOff))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	api := padlockapi.Handler(store, padlockapi.AllowBreak(), padlockapi.Authorize(func(*http.Request) padlockapi.Visitor {
		return padlockapi.Visitor{Name: "ann", Read: true, Acquire: true, Break: true}
	}))
	t.Cleanup(func() { api.Close() })
	web := httptest.NewServer(api)
	t.Cleanup(web.Close)
	proxies := server.NewProxies[driver.Store](t, strings.TrimPrefix(web.URL, "http://"))
	drivertest.Run(t, drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			return proxies.Open(func(addr string) (driver.Store, error) {
				return httpstore.Open(ctx, httpstore.Config{Servers: []string{"http://" + addr}})
			})
		},
		Anonymous:     true,
		Parallel:      8,
		CutConnection: proxies.Cut,
		LoseReply:     proxies.LoseReply(changes),
		Pause:         srv.Freeze,
		Restart:       srv.Crash,
		FullSays:      "grants nothing yet",
		Full: func(on bool) error {
			limit := map[bool]string{true: "1", false: "0"}[on]
			_, err := server.AskRedis(context.Background(), srv.Addr(), "CONFIG", "SET", "maxmemory", limit)
			return err
		},
	})
}

// changes reports whether a request can change a lock.
func changes(request []byte) bool {
	for _, path := range []string{"acquire", "extend", "release", "break"} {
		if bytes.HasPrefix(request, []byte("POST /v1/"+path+" ")) {
			return true
		}
	}
	return false
}
