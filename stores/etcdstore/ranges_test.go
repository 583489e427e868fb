package etcdstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// The comment of Prefix says this range. Open checks it before it connects.
func TestRangeOfPrefix(t *testing.T) {
	for prefix, valid := range map[string]bool{
		"": false, "p": true, strings.Repeat("p", 256): true, strings.Repeat("p", 257): false, "a\x00b": false,
	} {
		s, err := etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: []string{"127.0.0.1:1"}}, etcdstore.Lazy(), etcdstore.Prefix(prefix))
		if (err == nil) != valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a prefix of %d bytes: %v", len(prefix), err)
		}
		if err == nil {
			s.Close()
		}
	}
}

// Nil stands for the default clock. The store uses the clock when it takes a lock, which fails
// here.
func TestNilClock(t *testing.T) {
	s, err := etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: []string{"127.0.0.1:1"}}, etcdstore.Lazy(), etcdstore.WithClock(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Acquire(ctx, driver.Request{Name: "job", Token: driver.TokenOf("a token of this test"), TTL: 30 * time.Second}); err == nil {
		t.Error("a lock was given without a server")
	}
}
