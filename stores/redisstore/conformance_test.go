package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestContract checks every layout against the contract of package driver, with restarts, pauses
// and broken connections. The first tier runs all cases of the layouts that other programs share, and
// of the others, which have the same scripts, the cases with faults.
func TestContract(t *testing.T) {
	for _, row := range []struct {
		name string
		opts []redisstore.Option
	}{
		{"set", []redisstore.Option{redisstore.Durable()}},
		{"set without fences", []redisstore.Option{redisstore.NoFences()}},
		{"set, padlock alone", []redisstore.Option{redisstore.OnlyPadlock()}},
		{"set, with pollers", []redisstore.Option{redisstore.Foreign()}},
		{"string", []redisstore.Option{redisstore.PlainStrings()}},
		{"string without fences", []redisstore.Option{redisstore.PlainStrings(), redisstore.NoFences()}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			plain := strings.HasPrefix(row.name, "string")
			opts := append(row.opts, redisstore.RestartGuard(redisstore.GuardOff))
			b := newBench(t, server.RedisOptions{Persist: true}, opts...)
			h := b.harness()
			h.Parallel = 16
			h.FullSays = "maxmemory"
			h.Full = func(on bool) error {
				c := rawClient(t, single(b.srv.Addr()))
				limit := map[bool]string{true: "1", false: "0"}[on]
				return c.Do(t.Context(), c.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", limit).Build()).Error()
			}
			if row.name != "set" && row.name != "string" {
				h.Restart, h.Pause = nil, nil // these take long, and the layouts are the same
				h.Alone = !server.IsThorough()
			}
			h.Foreign = func(name string) (func() error, error) {
				c := rawClient(t, single(b.srv.Addr()))
				if plain {
					return plainLock(c, name, newToken(), time.Minute)
				}
				return symfony(c, name, newToken(), time.Minute)
			}
			drivertest.Run(t, h)
		})
	}
}
