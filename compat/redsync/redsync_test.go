package redsync_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/compat/redsync"
	"github.com/padlock-go/padlock/compat/redsync/redis/goredis/v9"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	goredislib "github.com/redis/go-redis/v9"
)

func client(t *testing.T, srv *server.Server) *goredislib.Client {
	c := goredislib.NewClient(&goredislib.Options{Addr: srv.Addr()})
	t.Cleanup(func() { c.Close() })
	return c
}

// locker returns a Locker, and a function that returns when somebody waits for a name in its store.
func locker(t *testing.T) (*padlock.Locker, func(name string)) {
	store, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{server.Redis(t, server.RedisOptions{}).Addr()}}, redisstore.PlainStrings())
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	t.Cleanup(func() { l.Close(context.Background()) })
	return l, func(name string) {
		server.Eventually(t, func() error {
			st, err := l.Inspect(t.Context(), name)
			if err == nil && st.Waiters == 0 {
				err = errors.New("nobody waits")
			}
			return err
		})
	}
}

// want fails the test unless a call ends as redsync says.
func want(t *testing.T, what string, ok bool, err error, wantOK bool, wantErr error) {
	t.Helper()
	if ok != wantOK || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Errorf("%s: %v, %v", what, ok, err)
	}
}

// A mutex ends as redsync's does, on one server and on three.
func TestMutex(t *testing.T) {
	t.Parallel()
	one := client(t, server.Redis(t, server.RedisOptions{}))
	two, three := client(t, server.Redis(t, server.RedisOptions{})), client(t, server.Redis(t, server.RedisOptions{}))
	for name, rs := range map[string]*redsync.Redsync{
		"one":   redsync.New(goredis.NewPool(one)),
		"three": redsync.New(goredis.NewPool(one), goredis.NewPool(two), goredis.NewPool(three)),
	} {
		t.Run(name, func(t *testing.T) {
			m := rs.NewMutex(name)
			if ok, err := m.Valid(); ok || err != nil || m.Value() != "" || !m.Until().IsZero() || m.Name() != name {
				t.Errorf("before it was locked: %v, %v", ok, err)
			}
			ok, err := m.Unlock()
			want(t, "unlock before lock", ok, err, false, redsync.ErrLockAlreadyExpired)
			if err := m.Lock(); err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprintf("%v %+v %#v", m, m, m); strings.Contains(text, m.Value()) {
				t.Error("a mutex prints its value")
			}
			if left := time.Until(m.Until()); left < 5*time.Second || left > 8*time.Second {
				t.Errorf("%v are left of 8 s", left)
			}
			if v, err := one.Get(t.Context(), name).Result(); v != m.Value() || err != nil {
				t.Errorf("the key is %q, %v", v, err)
			}
			var taken *redsync.ErrTaken
			var held *padlock.HeldError
			if err := rs.NewMutex(name).TryLock(); !errors.As(err, &taken) || !errors.As(err, &held) {
				t.Errorf("locked twice: %v", err)
				safety.TwoHold(t, name)
			}
			ok, err = m.Valid()
			want(t, "valid", ok, err, true, nil)
			until := m.Until()
			ok, err = m.Extend()
			if want(t, "extend", ok, err, true, nil); !m.Until().After(until) {
				t.Error("extend moved no deadline")
			}
			other := rs.NewMutex(name, redsync.WithValue(m.Value()))
			ok, err = other.Unlock()
			want(t, "unlock by value", ok, err, true, nil)
			ok, err = m.Unlock()
			want(t, "unlock again", ok, err, false, redsync.ErrLockAlreadyExpired)
			ok, err = m.Extend()
			want(t, "extend what was unlocked", ok, err, false, padlock.ErrLost)
			ok, err = rs.NewMutex(name, redsync.WithSetNXOnExtend(), redsync.WithValue("lost")).Extend()
			want(t, "extend takes it again", ok, err, true, nil)
		})
	}
}

// A release wakes who waits, although redsync would look again only after a minute.
func TestReleaseWakes(t *testing.T) {
	t.Parallel()
	l, waits := locker(t)
	rs := redsync.NewOn(l)
	first := rs.NewMutex("job", redsync.WithExpiry(time.Minute/2))
	if err := first.Lock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error)
	go func() {
		done <- rs.NewMutex("job", redsync.WithTries(2), redsync.WithRetryDelay(time.Minute)).LockContext(ctx)
	}()
	waits("job")
	if _, err := first.Unlock(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	go func() {
		done <- rs.NewMutex("job", redsync.WithTries(2), redsync.WithRetryDelay(time.Minute)).LockContext(ended)
	}()
	waits("job")
	cancel()
	if err := <-done; err != redsync.ErrFailed {
		t.Error(err)
	}
}

// A server that cannot be reached is a RedisError, and so is a client of another kind.
func TestRedisError(t *testing.T) {
	nobody := goredislib.NewClient(&goredislib.Options{Addr: "127.0.0.1:1"})
	ring := goredislib.NewRing(&goredislib.RingOptions{})
	for name, c := range map[string]goredislib.UniversalClient{"nobody listens": nobody, "ring": ring} {
		defer c.Close()
		var of *redsync.RedisError
		if err := redsync.New(goredis.NewPool(c)).NewMutex("job").TryLock(); !errors.As(err, &of) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
