package stampede_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// Two Caches on one Values share neither values nor locks. An Invalidate of one does not affect the
// other.
func TestNames(t *testing.T) {
	ctx := t.Context()
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	values := stampede.NewMemory()
	made := ""
	open := func(name string) *stampede.Cache[string] {
		c, err := stampede.New(l, values, name, func(_ context.Context, key string) (string, error) { return made + " " + key, nil }, stampede.Fresh(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	users, posts := open("users"), open("posts")
	get := func(c *stampede.Cache[string], now string) string {
		made = now
		v, err := c.Get(ctx, "7")
		if err != nil {
			t.Error(err)
		}
		return v
	}
	get(users, "user")
	if v := get(posts, "post"); v != "post 7" {
		t.Errorf("the posts got %q", v)
	}
	if v := get(open("users"), "another process"); v != "user 7" {
		t.Errorf("a Cache of the same name got %q", v)
	}
	if err := users.Invalidate(ctx, "7"); err != nil {
		t.Fatal(err)
	}
	if user, post := get(users, "new user"), get(posts, "new post"); user != "new user 7" || post != "post 7" {
		t.Errorf("after the Invalidate: %q, %q", user, post)
	}
	guard, err := l.Acquire(ctx, "stampede:users:8")
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Release()
	if v, err := posts.Get(ctx, "8"); v != "new post 8" || err != nil {
		t.Errorf("while the lock of another name is held: %q, %v", v, err)
	}
}

// TestWrongArguments: New and NewDir return an error for wrong arguments. The first Get would be
// too late.
func TestWrongArguments(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	m := stampede.NewMemory()
	fn := func(context.Context, string) (int, error) { return 0, nil }
	cache := func(l *padlock.Locker, v stampede.Values, name string, ttl time.Duration, fn func(context.Context, string) (int, error), opts ...stampede.Option) func() error {
		return func() error {
			_, err := stampede.New(l, v, name, fn, append([]stampede.Option{stampede.Fresh(ttl)}, opts...)...)
			return err
		}
	}
	for name, f := range map[string]func() error{
		"no Locker": cache(nil, m, "n", 1, fn), "no Values": cache(l, nil, "n", 1, fn), "no function": cache(l, m, "n", 1, nil),
		"no name": cache(l, m, "", 1, fn), "colon": cache(l, m, "a:b", 1, fn), "ttl": cache(l, m, "n", -1, fn),
		"no Fresh":   func() error { _, err := stampede.New(l, m, "n", fn); return err },
		"nil option": cache(l, m, "n", 1, fn, nil), "Jitter": cache(l, m, "n", 1, fn, stampede.Jitter(1.5)),
		"Early": cache(l, m, "n", 1, fn, stampede.Early(-1)), "Lease": cache(l, m, "n", 1, fn, stampede.Lease(0)),
		"Stale": cache(l, m, "n", 1, fn, stampede.Stale(-1)), "Codec": cache(l, m, "n", 1, fn, stampede.ValueCodec(nil)),
		"Dir: no Locker": func() error { _, err := stampede.NewDir(t.TempDir(), nil); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := cache(l, m, "n", 0, fn, stampede.Jitter(1), stampede.Early(0), stampede.Local(0), stampede.MaxWait(0))(); err != nil {
		t.Error(err)
	}
}

// Keys may be longer than the names of locks can be. Two long keys that differ only at the end have
// different values and locks.
func TestLongKeys(t *testing.T) {
	ctx := t.Context()
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	c := stampede.NewFamily(l, stampede.NewMemory(), stampede.Strict())
	long := strings.Repeat("é", 2500)
	for _, key := range []string{strings.Repeat("x", driver.MaxName), strings.Repeat("x", driver.MaxName+1), long + "a", long + "b"} {
		v, err := stampede.Remember(ctx, c, key, time.Hour, func(context.Context) (string, error) { return key, nil })
		if v != key || err != nil {
			t.Errorf("a key of %d bytes: %v", len(key), err)
		}
	}
	if a, b := stampede.LockName(l, long+"a"), stampede.LockName(l, long+"b"); a == b || len(a) > driver.MaxName {
		t.Errorf("the locks have the names %q and %q", a, b)
	}
}

// The first caller gets the same value as the next one: an empty slice, not nil.
func TestNilBytes(t *testing.T) {
	c := newFleet(t, 1).caches[0]
	for range 2 {
		v, err := stampede.Remember(t.Context(), c, "k", time.Hour, func(context.Context) ([]byte, error) { return nil, nil })
		if v == nil || len(v) != 0 || err != nil {
			t.Errorf("%#v, %v", v, err)
		}
	}
}

// TestLongNamesBehindAPrefix uses names that are too long for the store, because its prefix leaves
// less room. Two such names that differ only at the end are different locks.
func TestLongNamesBehindAPrefix(t *testing.T) {
	ctx := t.Context()
	for _, prefix := range []string{"p:", strings.Repeat("p", 900), strings.Repeat("p", driver.MaxName-75)} {
		l := padlock.New(padlock.WithPrefix(memstore.New(), prefix))
		defer l.Close(context.Background())
		for _, n := range []int{driver.MaxName - len(prefix), driver.MaxName - len(prefix) + 1, driver.MaxName, 5000} {
			name := strings.Repeat("k", n-1)
			a, err := l.TryAcquire(ctx, stampede.LockName(l, name+"a"), padlock.TTL(longLease))
			if err != nil {
				t.Errorf("a prefix of %d bytes, a name of %d: %v", len(prefix), n, err)
				continue
			}
			if b, err := l.TryAcquire(ctx, stampede.LockName(l, name+"b"), padlock.TTL(longLease)); err != nil {
				t.Errorf("a prefix of %d bytes: another name of %d bytes: %v", len(prefix), n, err)
			} else if err := b.Release(); err != nil {
				t.Error(err)
			}
			if b, err := l.TryAcquire(ctx, stampede.LockName(l, name+"a"), padlock.TTL(longLease)); err == nil {
				b.Release()
				t.Errorf("a prefix of %d bytes: a name of %d bytes is locked twice", len(prefix), n)
			}
			if err := a.Release(); err != nil {
				t.Error(err)
			}
		}
		c, err := stampede.New(l, stampede.NewMemory(), "pages", func(_ context.Context, key string) (string, error) { return key[:1], nil }, stampede.Fresh(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := c.Get(ctx, strings.Repeat("k", driver.MaxName)); v != "k" || err != nil {
			t.Errorf("a prefix of %d bytes: a long key of a Cache: %q, %v", len(prefix), v, err)
		}
	}
}

// Every caller gets the value that its bytes decode to, also the one that made it. A type of which
// JSON would keep nothing is refused.
func TestTheMakerGetsTheCopy(t *testing.T) {
	type page struct {
		Body  string
		bytes int
	}
	type hidden struct{ body string }
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	c, err := stampede.New(l, stampede.NewMemory(), "pages", func(context.Context, string) (*page, error) { return &page{"hello", 5}, nil }, stampede.Fresh(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if p, err := c.Get(t.Context(), "k"); err != nil || *p != (page{"hello", 0}) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	_, err = stampede.New(l, stampede.NewMemory(), "hidden", func(context.Context, string) (hidden, error) { return hidden{"hello"}, nil }, stampede.Fresh(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "none of its fields is exported") {
		t.Error(err)
	}
	wide, err := stampede.New(l, stampede.NewMemory(), "any", func(context.Context, string) (any, error) { return hidden{"hello"}, nil }, stampede.Fresh(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := wide.Get(t.Context(), "k"); err == nil {
		t.Errorf("got %+v", v)
	}
}
