package stampede_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/memstore"
	"github.com/padlock-go/padlock/stampede"
)

// Two Caches on one Values, with prefixes of their own, have values of their
// own, locks of their own, and invalidate their own.
func TestPrefix(t *testing.T) {
	ctx := t.Context()
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	values := stampede.NewMemory(0)
	users := stampede.New(l, values, stampede.Prefix("users:"))
	posts := stampede.New(l, values, stampede.Prefix("posts:"))
	get := func(c *stampede.Cache, made string, opts ...stampede.Option) string {
		v, err := stampede.Remember(ctx, c, "7", time.Hour, func(context.Context) (string, error) { return made, nil }, opts...)
		if err != nil {
			t.Error(err)
		}
		return v
	}
	get(users, "user seven")
	if v := get(posts, "post seven"); v != "post seven" {
		t.Errorf("the posts got %q", v)
	}
	if v := get(users, "news seven", stampede.Prefix("news:")); v != "news seven" {
		t.Errorf("a call with a Prefix got %q", v)
	}
	if err := users.Invalidate(ctx, "7", stampede.Prefix("news:")); err != nil {
		t.Fatal(err)
	}
	for want, v := range map[string]string{
		"user seven": get(users, "user again"), "post seven": get(posts, "post again"), "news again": get(users, "news again", stampede.Prefix("news:")),
	} {
		if v != want {
			t.Errorf("after the Invalidate: %q, want %q", v, want)
		}
	}
}

// Keys may be longer than the names of locks, and two that differ at their ends
// are two.
func TestLongKeys(t *testing.T) {
	ctx := t.Context()
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	c := stampede.New(l, stampede.NewMemory(0), stampede.Strict(), stampede.Prefix(""))
	long := strings.Repeat("é", 2500)
	for _, key := range []string{strings.Repeat("x", driver.MaxName), strings.Repeat("x", driver.MaxName+1), long + "a", long + "b"} {
		v, err := stampede.Remember(ctx, c, key, time.Hour, func(context.Context) (string, error) { return key, nil })
		if v != key || err != nil {
			t.Errorf("a key of %d bytes: %v", len(key), err)
		}
	}
	guard, err := c.Prevent(ctx, long+"a")
	if err != nil || len(guard.Name()) > driver.MaxName {
		t.Fatalf("Prevent: %v", err)
	}
	defer guard.Release()
	for end, want := range map[string]bool{"a": false, "b": true} {
		if ran, err := c.Do(ctx, long+end, func(context.Context) error { return nil }); ran != want || err != nil {
			t.Errorf("Do of the key that ends with %s: %v, %v", end, ran, err)
		}
	}
}

// The first caller gets what the next gets.
func TestNilBytes(t *testing.T) {
	c := newFleet(t, 1).caches[0]
	for range 2 {
		v, err := stampede.Remember(t.Context(), c, "k", time.Hour, func(context.Context) ([]byte, error) { return nil, nil })
		if v == nil || len(v) != 0 || err != nil {
			t.Errorf("%#v, %v", v, err)
		}
	}
}
