package redisstore_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// Many callers of one Locker acquire and release the same names, and many of them give up. No
// other caller misses its turn.
func TestCallersThatGiveUpInACrowd(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	l := padlock.New(opened(t, srv.Addr()))
	defer l.Close(context.Background())
	var all sync.WaitGroup
	var got, gaveUp atomic.Int64
	for i := range 200 {
		all.Go(func() {
			for n := range 20 {
				name := "name" + strconv.Itoa((i+n)%10)
				ctx, cancel := context.WithCancel(t.Context())
				if (i+n)%2 == 0 {
					ctx, cancel = context.WithTimeout(t.Context(), rand.N(4*time.Millisecond)+time.Millisecond)
				}
				lock, err := l.Acquire(ctx, name, padlock.Wait(20*time.Second))
				gone := ctx.Err() != nil
				cancel()
				switch {
				case err == nil:
					got.Add(1)
					if err := lock.Release(); err != nil {
						t.Errorf("Release of %s: %v", name, err)
					}
				case gone:
					gaveUp.Add(1)
				default:
					t.Errorf("Acquire of %s, which is free again and again: %v", name, err)
				}
			}
		})
	}
	all.Wait()
	if got.Load() == 0 || gaveUp.Load() == 0 {
		t.Errorf("%d calls got a name, and %d gave up", got.Load(), gaveUp.Load())
	}
}

// More callers than permits, in several processes. No permit is lost, and none is given twice.
func TestCrowdOfPermits(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	const permits = 100
	srv := server.Redis(t, server.RedisOptions{})
	var all sync.WaitGroup
	var holders, got atomic.Int64
	for range 8 {
		l := padlock.New(opened(t, srv.Addr()))
		defer l.Close(context.Background())
		for range 40 {
			all.Go(func() {
				for range 5 {
					lock, err := l.Acquire(t.Context(), "permits", padlock.Slots(permits), padlock.Wait(time.Minute))
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					got.Add(1)
					if n := holders.Add(1); n > permits {
						safety.TwoHold(t, "%d holders of %d permits", n, permits)
					}
					for range 3 { // so that the others wait
						if err := lock.Check(t.Context()); err != nil {
							t.Errorf("Check: %v", err)
						}
					}
					holders.Add(-1)
					if err := lock.Release(); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	if want := int64(8 * 40 * 5); got.Load() != want {
		t.Errorf("%d grants, want %d", got.Load(), want)
	}
}
