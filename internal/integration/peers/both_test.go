package peers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/quorum"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
)

// both takes the lock of redsync, extends it at each tick, and takes padlock's lock inside of it. tick
// is a time.Tick of this call, of a third of the expiry.
func both(ctx context.Context, old *redsync.Mutex, locker *padlock.Locker, tick <-chan time.Time, work func(context.Context) error) error {
	if err := old.LockContext(ctx); err != nil {
		return err
	}
	defer old.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-tick:
				if ok, err := old.ExtendContext(ctx); !ok {
					cancel(err) // ends the work
				}
			}
		}
	}()
	return locker.Do(ctx, old.Name(), work, padlock.Wait(time.Second))
}

// TestBothLocks: on the same three servers, a quorum with a prefix goes together with redsync. A
// quorum without one finds the name held by redsync.
func TestBothLocks(t *testing.T) {
	t.Parallel()
	var pools []redsyncredis.Pool
	var plain, prefixed []driver.Store
	for range 3 {
		srv := server.Redis(t, server.RedisOptions{})
		c := redis.NewClient(&redis.Options{Addr: srv.Addr(), ReadTimeout: patience})
		t.Cleanup(func() { c.Close() })
		pools = append(pools, goredis.NewPool(c))
		plain = append(plain, opened(t, srv, redisstore.Lazy()))
		prefixed = append(prefixed, opened(t, srv, redisstore.Lazy(), redisstore.Prefix("shop:")))
	}
	rs := redsync.New(pools...)
	open := func(stores []driver.Store) *padlock.Locker {
		q, err := quorum.New(quorum.Majority, stores)
		if err != nil {
			t.Fatal(err)
		}
		l := padlock.New(q)
		t.Cleanup(func() { l.Close(context.Background()) })
		return l
	}
	runs := 0
	work := func(context.Context) error { runs++; return nil }
	if err := both(t.Context(), rs.NewMutex("job"), open(prefixed), nil, work); err != nil || runs != 1 {
		t.Errorf("with a prefix: %v, %d runs", err, runs)
	}
	if err := both(t.Context(), rs.NewMutex("job"), open(plain), nil, work); !errors.Is(err, padlock.ErrHeld) {
		t.Errorf("without a prefix: %v, %d runs", err, runs)
	}
	old, tick := rs.NewMutex("lost"), make(chan time.Time)
	err := both(t.Context(), old, open(prefixed), tick, func(ctx context.Context) error {
		if ok, err := old.UnlockContext(ctx); !ok {
			t.Errorf("redsync did not unlock: %v", err)
		}
		runs++
		tick <- time.Time{}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if taken := new(redsync.ErrTaken); !errors.As(err, &taken) || runs != 2 {
		t.Errorf("without the old lock: %v, %d runs", err, runs)
	}
}
