package redisstore

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// untilBack stands before each script of this test. The script waits until the server's clock is set
// back. From Redis 7.2 on, a script does not see that, and goes on soon.
const untilBack = `local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
local before = now()
for i = 1, 200000 do
  local t = now()
  if t < before then break end
  before = t
end
`

// The clock of the server is set back by more than the lease while a script runs. Before Redis 7.2,
// a script sees the keys as of its beginning: an end of the lease by the new clock is in the past.
func TestClockSetBackInScript(t *testing.T) {
	t.Parallel()
	clock := server.NewClock(t)
	if clock == nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no C compiler for the clock")
		}
		t.Skip("there is no C compiler for the clock")
	}
	srv := server.Redis(t, server.RedisOptions{Env: clock.Env})
	for layout, options := range map[string][]Option{"set": nil, "string": {PlainStrings()}} {
		t.Run(layout, func(t *testing.T) { clockSetBack(t, clock, srv, layout, append(options, RestartGuard(GuardOff))) })
	}
}

func clockSetBack(t *testing.T, clock *server.Clock, srv *server.Server, layout string, options []Option) {
	var stores [2]*Store
	for i := range stores {
		s, err := Open(t.Context(), Config{Addrs: []string{srv.Addr()}}, options...)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores[i] = s
	}
	stores[0].scripts = newScripts(layout, func(files ...string) *script {
		text := untilBack + newScript(files...).text
		sum := sha1.Sum([]byte(text))
		return &script{text, hex.EncodeToString(sum[:])}
	})
	request := func(name, token string) driver.Request {
		return driver.Request{Name: layout + name, Token: driver.TokenOf(token), TTL: 30 * time.Second}
	}
	for name, above := range map[string]uint64{"fast": 0, "full": 7} {
		setBackDuring(t, clock, func() {
			r := request(name, "one")
			r.FenceAbove = above
			if _, err := stores[0].Acquire(t.Context(), r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if g, err := stores[1].Acquire(t.Context(), request(name, "two")); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s: a second caller gets %+v, %v", name, g, err)
		}
	}
	setBackDuring(t, clock, func() {
		if out, err := stores[0].Release(t.Context(), layout+"full", "one", time.Minute); err != nil || out != driver.OutcomeReleased {
			t.Error(out, err)
		}
	})
	if g, err := stores[1].Acquire(t.Context(), request("full", "two")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("in the cool-down, a caller gets %+v, %v", g, err)
	}
}

// setBackDuring calls f, and sets the clock back again and again meanwhile.
func setBackDuring(t *testing.T, clock *server.Clock, f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	for {
		select {
		case <-ended:
			return
		default:
			if err := clock.Add(-5 * time.Minute); err != nil {
				t.Error(err)
			}
		}
	}
}
