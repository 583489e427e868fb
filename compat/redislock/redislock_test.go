package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/compat/redislock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
)

// A lock ends as redislock's does.
func TestLock(t *testing.T) {
	t.Parallel()
	rc := redis.NewClient(&redis.Options{Addr: server.Redis(t, server.RedisOptions{}).Addr()})
	defer rc.Close()
	c := redislock.New(rc)
	ctx := t.Context()
	lock, err := c.Obtain(ctx, "job", time.Hour, &redislock.Options{Metadata: "web-3"})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v", lock, lock, lock); strings.Contains(text, lock.Token()) {
		t.Error("a lock prints its token")
	}
	if v, err := rc.Get(ctx, "job").Result(); v != lock.Token()+"web-3" || err != nil || lock.Metadata() != "web-3" || lock.Key() != "job" {
		t.Errorf("the key is %q, %v", v, err)
	}
	if _, err := redislock.Obtain(ctx, rc, "job", time.Hour, nil); err != redislock.ErrNotObtained {
		t.Error("obtained twice:", err)
		safety.TwoHold(t, "job")
	}
	if left, err := lock.TTL(ctx); err != nil || left < 59*time.Minute || left > time.Hour {
		t.Errorf("%v of an hour are left, %v", left, err)
	}
	if err := lock.Refresh(ctx, 2*time.Hour, nil); err != nil {
		t.Error(err)
	}
	if left, err := lock.TTL(ctx); err != nil || left < 118*time.Minute {
		t.Errorf("%v of two hours are left, %v", left, err)
	}
	if err := lock.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := lock.Release(ctx); err != redislock.ErrLockNotHeld {
		t.Error("released twice:", err)
	}
	if err := lock.Refresh(ctx, time.Hour, nil); err != redislock.ErrNotObtained {
		t.Error("refreshed after the release:", err)
	}
	if left, err := lock.TTL(ctx); left != 0 || err != nil {
		t.Error("after the release:", left, err)
	}
	if err := (*redislock.Lock)(nil).Release(ctx); err != redislock.ErrLockNotHeld {
		t.Error(err)
	}
}

// Obtain waits as long as its strategy would try, or until its deadline, and a release wakes it.
func TestWait(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, err := redisstore.Open(ctx, redisstore.Config{Addrs: []string{server.Redis(t, server.RedisOptions{}).Addr()}}, redisstore.PlainStrings())
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	defer l.Close(context.Background())
	c := redislock.NewOn(l)
	lock, err := c.Obtain(ctx, "job", time.Minute/2, nil)
	if err != nil {
		t.Fatal(err)
	}
	short := redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 3)
	if _, err := c.Obtain(ctx, "job", time.Minute/2, &redislock.Options{RetryStrategy: short}); err != redislock.ErrNotObtained {
		t.Error("after three tries:", err)
	}
	late, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	ever := redislock.ExponentialBackoff(time.Second, time.Minute)
	if _, err := c.Obtain(late, "job", time.Minute/2, &redislock.Options{RetryStrategy: ever}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("after the deadline:", err)
	}
	done := make(chan error)
	go func() {
		_, err := c.Obtain(ctx, "job", time.Minute/2, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Minute)})
		done <- err
	}()
	server.Eventually(t, func() error {
		st, err := l.Inspect(ctx, "job")
		if err == nil && st.Waiters == 0 {
			err = errors.New("nobody waits")
		}
		return err
	})
	if err := lock.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStrategies(t *testing.T) {
	e := redislock.ExponentialBackoff(5*time.Millisecond, 20*time.Millisecond)
	for i, want := range []time.Duration{5, 8, 16, 20, 20} {
		if d := e.NextBackoff(); d != want*time.Millisecond {
			t.Errorf("backoff %d is %v", i, d)
		}
	}
	l := redislock.LimitRetry(redislock.LinearBackoff(time.Second), 2)
	for i, want := range []time.Duration{time.Second, time.Second, 0, 0} {
		if d := l.NextBackoff(); d != want {
			t.Errorf("retry %d is %v", i, d)
		}
	}
	if redislock.NoRetry().NextBackoff() != 0 {
		t.Error("NoRetry tries again")
	}
}

// A client that padlock does not know is named.
func TestUnknownClient(t *testing.T) {
	if _, err := redislock.New(redis.NewRing(&redis.RingOptions{})).Obtain(t.Context(), "job", time.Second, nil); !errors.Is(err, driver.ErrInvalid) {
		t.Error(err)
	}
}
