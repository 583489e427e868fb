package overhttp

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime/pprof"
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
	overRedis(t, func(ctx context.Context, addr string) (driver.Store, error) {
		return httpstore.Open(ctx, httpstore.Config{Servers: []string{"http://" + addr}})
	})
}

// Each client speaks HTTP/2 to a reverse proxy of its own, and the trouble is behind that proxy. All
// its requests share one connection, waits too, and a caller that goes away resets its stream.
func TestContractBehindHTTP2(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	overRedis(t, func(ctx context.Context, addr string) (driver.Store, error) {
		behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
		behind.ErrorLog = log.New(io.Discard, "", 0) // the trouble is on purpose
		web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("the protocol is %s", r.Proto)
			}
			behind.ServeHTTP(w, r)
		}))
		web.EnableHTTP2 = true
		// Without labels, the goroutines of the proxy do not count as those of the store.
		pprof.Do(ctx, pprof.Labels(), func(ctx context.Context) {
			pprof.SetGoroutineLabels(context.Background())
			web.StartTLS()
		})
		t.Cleanup(web.Close)
		authority := web.Client().Transport.(*http.Transport).TLSClientConfig
		return httpstore.Open(ctx, httpstore.Config{Servers: []string{web.URL}, TLS: authority})
	})
}

// overRedis runs the suite on a server of the API. The function open connects a store to an address.
func overRedis(t *testing.T, open func(ctx context.Context, addr string) (driver.Store, error)) {
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
			return proxies.Open(func(addr string) (driver.Store, error) { return open(ctx, addr) })
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
