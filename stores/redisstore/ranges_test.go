package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// The comments of the options say these ranges. Open checks them before it sends anything.
func TestRangesOfOptions(t *testing.T) {
	for _, c := range []struct {
		name  string
		opt   redisstore.Option
		valid bool
	}{
		{"FenceKeep(59s)", redisstore.FenceKeep(59 * time.Second), false},
		{"FenceKeep(1m)", redisstore.FenceKeep(time.Minute), true},
		{"FenceKeep(720h)", redisstore.FenceKeep(720 * time.Hour), true},
		{"FenceKeep(721h)", redisstore.FenceKeep(721 * time.Hour), false},
		{"a prefix of 256 bytes", redisstore.Prefix(strings.Repeat("p", 256)), true},
		{"a prefix of 257 bytes", redisstore.Prefix(strings.Repeat("p", 257)), false},
		{"a prefix of padlock's own", redisstore.Prefix("padlock:"), false},
		{"half a hash tag", redisstore.Prefix("{shop"), false},
		{"MaxTTL(99ms)", redisstore.MaxTTL(99 * time.Millisecond), false},
		{"MaxTTL(100ms)", redisstore.MaxTTL(100 * time.Millisecond), true},
		{"MaxTTL(24h)", redisstore.MaxTTL(24 * time.Hour), true},
		{"MaxTTL(25h)", redisstore.MaxTTL(25 * time.Hour), false},
		{"no Guard", redisstore.RestartGuard(7), false},
		{"nil for a clock", redisstore.WithClock(nil), true},
		{"nil for run ids", redisstore.RememberRunIDs(nil), true},
	} {
		config := redisstore.Config{Addrs: []string{"127.0.0.1:1"}}
		s, err := redisstore.Open(t.Context(), config, redisstore.Lazy(), c.opt)
		if (err == nil) != c.valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			s.Close()
		}
	}
	for db, cluster := range map[int]bool{-1: false, 1: true} {
		config := redisstore.Config{Addrs: []string{"127.0.0.1:1"}, DB: db, Cluster: cluster}
		if _, err := redisstore.Open(t.Context(), config, redisstore.Lazy()); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("database %d: %v", db, err)
		}
	}
}
