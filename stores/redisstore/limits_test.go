package redisstore_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestKeepsOutlastLeases: with the defaults, a lease lasts for less than a minute, because the
// restart guard waits for no longer. But a cool-down may last for a day.
func TestKeepsOutlastLeases(t *testing.T) {
	t.Parallel()
	bothLayouts(t, func(t *testing.T, s *redisstore.Store, _ *server.Server) {
		long := request("long")
		long.TTL = redisstore.DefaultMaxTTL + 1
		_, err := s.Acquire(t.Context(), long)
		wantIs(t, err, driver.ErrInvalid, "a lease that is too long")
		if !strings.Contains(err.Error(), "max-ttl") {
			t.Errorf("the error does not say what to set: %v", err)
		}
		r := request("cooling")
		take(t, s, r)
		if _, err := s.Release(t.Context(), r.Name, r.Token.Text(), 24*time.Hour); err != nil {
			t.Fatal(err)
		}
		wantKept(t, s, "cooling")
	})
}

// wantKept checks that a name cools down for about a day.
func wantKept(t *testing.T, s *redisstore.Store, name string) {
	t.Helper()
	st, err := s.Inspect(t.Context(), name)
	if err != nil || len(st.Holds) != 1 || !st.Holds[0].Cooling || time.Until(st.Holds[0].Until) < 23*time.Hour {
		t.Errorf("%s: %+v, %v; want a cool-down of a day", name, st, err)
	}
}

var guardLeft = regexp.MustCompile(`gives no locks for (\S+)`)

// TestGuardIsShort: with the defaults, the restart guard acts for less than a minute. Where PHP
// uses the names, it waits for PHP's leases of 300 s.
func TestGuardIsShort(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	srv.Restart(false)
	for what, row := range map[string]struct {
		opts     []redisstore.Option
		low, max time.Duration
	}{
		"defaults": {nil, 30 * time.Second, time.Minute},
		"foreign":  {[]redisstore.Option{redisstore.Foreign()}, 4 * time.Minute, 305 * time.Second},
		"set":      {[]redisstore.Option{redisstore.Foreign(), redisstore.MaxTTL(2 * time.Minute)}, time.Minute, 123 * time.Second},
	} {
		s := opened(t, srv.Addr(), append(row.opts, redisstore.RestartGuard(redisstore.GuardStrict))...)
		_, err := s.Acquire(t.Context(), request("job"))
		wantIs(t, err, driver.ErrUnavailable, "Acquire after a restart")
		found, err := s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := guardLeft.FindStringSubmatch(finding(found, "restart-guard").Value)
		if m == nil {
			t.Fatalf("%s: %v", what, found)
		}
		if left, err := time.ParseDuration(m[1]); err != nil || left < row.low || left > row.max {
			t.Errorf("%s: the guard acts for %v, want %v to %v", what, m[1], row.low, row.max)
		}
	}
}
