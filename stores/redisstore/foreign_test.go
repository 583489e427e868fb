package redisstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// TestForeignRefusesOurKeys: other programs would not see a lock of such a name.
func TestForeignRefusesOurKeys(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr(), redisstore.Foreign())
	r := request("padlock:{abc}f:job")
	_, err := s.Acquire(t.Context(), r)
	_, waited := s.Wait(t.Context(), r, true)
	for _, err := range []error{err, waited} {
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("want ErrInvalid, got: %v", err)
		}
	}
	for _, name := range []string{"padlock:x", "x padlock:{abc}"} {
		if _, err := s.Acquire(t.Context(), request(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// symfonySave takes a lock as PHP does: it fails if the set has a member whose lease has not ended.
var symfonySave = rueidis.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
local til = now + ARGV[2]
redis.call('ZADD', KEYS[1], til, ARGV[1], til, '__write__')
redis.call('PEXPIREAT', KEYS[1], til)
return 1`)

// poller takes and releases a name in a loop. It tries every 90 to 110 ms, as a PHP program does,
// and returns its longest wait.
func poller(ctx context.Context, t *testing.T, c rueidis.Client, name string, inside *sync.Mutex, work func()) (longest time.Duration) {
	began := time.Now()
	for ctx.Err() == nil {
		n, err := symfonySave.Exec(context.Background(), c, []string{name}, []string{"php", "50000"}).AsInt64()
		if err != nil {
			t.Error(err)
			return longest
		}
		if n == 1 {
			longest = max(longest, time.Since(began))
			if !inside.TryLock() {
				safety.TwoHold(t, "PHP has the lock at the same time as another program")
				return longest
			}
			work()
			inside.Unlock()
			if err := c.Do(context.Background(), c.B().Zrem().Key(name).Member("php", "__write__").Build()).Error(); err != nil {
				t.Error(err)
			}
			began = time.Now()
		}
		pause(ctx, 110*time.Millisecond)
	}
	return max(longest, time.Since(began))
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// TestForeignPoller: one process or three processes use a name as fast as they can, and so does a
// program that polls. Neither side starves.
func TestForeignPoller(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	for _, stores := range []int{3, 1} {
		srv := server.Redis(t, server.RedisOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var inside sync.Mutex
		var ours, theirs atomic.Int64
		over := func() {
			if ours.Load() >= 50 && theirs.Load() >= 3 {
				cancel()
			}
		}
		var wg sync.WaitGroup
		for range stores {
			s := opened(t, srv.Addr(), redisstore.Foreign())
			wg.Go(func() {
				for ctx.Err() == nil {
					hold(ctx, t, s, "job", func(uint64) {
						if !inside.TryLock() {
							safety.TwoHold(t, "the lock has a holder already")
							return
						}
						pause(ctx, 5*time.Millisecond)
						inside.Unlock()
						ours.Add(1)
						over()
					})
				}
			})
		}
		longest := poller(ctx, t, rawClient(t, single(srv.Addr())), "job", &inside, func() {
			pause(ctx, 10*time.Millisecond)
			theirs.Add(1)
			over()
		})
		wg.Wait()
		t.Logf("%d stores: %d holds, the poller %d, its longest wait was %v", stores, ours.Load(), theirs.Load(), longest.Round(time.Millisecond))
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%d stores: in a minute they had the lock %d times, the poller %d times", stores, ours.Load(), theirs.Load())
		}
	}
}

// TestPollersLeaveRoom: six programs poll and leave the name free for short moments only. One
// waiter still gets the name.
func TestPollersLeaveRoom(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr(), redisstore.Foreign())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var inside sync.Mutex
	for range 6 {
		c := rawClient(t, single(srv.Addr()))
		wg.Go(func() { poller(ctx, t, c, "job", &inside, func() { pause(ctx, 60*time.Millisecond) }) })
	}
	bounded, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for range 6 {
		eventually(t, "another one has the name", func() bool {
			st, err := s.Inspect(t.Context(), "job")
			return err == nil && len(st.Holds) == 1 && st.Holds[0].Foreign
		})
		hold(bounded, t, s, "job", func(uint64) {})
	}
	if errors.Is(bounded.Err(), context.DeadlineExceeded) {
		t.Error("six pollers starve a waiter")
	}
	cancel()
	wg.Wait()
}

// TestTryAfterALongHold: a single try gets a free name right after a hold that was long enough for
// a gap.
func TestTryAfterALongHold(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for name, opts := range map[string][]redisstore.Option{
		"set": nil, "string": {redisstore.PlainStrings(), redisstore.Prefix("s:")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := opened(t, srv.Addr(), append([]redisstore.Option{redisstore.Foreign()}, opts...)...)
			for range 3 {
				r := request("job")
				take(t, s, r)
				pause(t.Context(), 1100*time.Millisecond)
				free(t, s, r)
				r = request("job")
				g, err := s.Acquire(t.Context(), r)
				if err != nil {
					t.Fatalf("a single try of a name that nobody has: %v", err)
				}
				if g.TTL < r.TTL {
					t.Errorf("the lease is %v", g.TTL)
				}
				free(t, s, r)
			}
			// Even so there is a gap: a client that polls finds the name free in it.
			r := request("job")
			take(t, s, r)
			pause(t.Context(), 1100*time.Millisecond)
			free(t, s, r)
			w := make(chan error, 1)
			next := request("job")
			go func() { _, err := s.Acquire(context.Background(), next); w <- err }()
			if name == "set" {
				c := rawClient(t, single(srv.Addr()))
				if n, err := symfonySave.Exec(t.Context(), c, []string{"job"}, []string{"php", "50000"}).AsInt64(); err != nil || n != 1 {
					t.Logf("the poller came too late: %d, %v", n, err)
					return
				}
				var held interface{ Foreign() bool }
				if err := <-w; !errors.As(err, &held) || !held.Foreign() {
					t.Errorf("a try while a poller has the name: %v", err)
				}
				return
			}
			if err := <-w; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTimesFromTheFuture: a gap, or a reader's request to be promoted, is ignored if it ends in an
// hour. That can happen after a server's clock was set back by an hour.
func TestTimesFromTheFuture(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, c := opened(t, srv.Addr(), redisstore.Foreign()), rawClient(t, single(srv.Addr()))
	later := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	r := request("gap")
	take(t, s, r)
	askBy(t, c, "HSET", companion(t, c, "h", r.Name), "g", later, "b", later, "e", later)
	free(t, s, r)
	take(t, s, request(r.Name))

	one, two := reading(request("wish")), reading(request("wish"))
	take(t, s, one)
	take(t, s, two)
	up := one
	up.Shared = false
	_, err := s.Convert(t.Context(), up)
	wantIs(t, err, driver.ErrHeld, "promotion with another reader")
	_, err = s.Acquire(t.Context(), reading(request("wish")))
	wantIs(t, err, driver.ErrHeld, "a reader while another waits to be promoted")
	askBy(t, c, "HSET", companion(t, c, "h", "wish"), "i", later+" "+one.Token.Text())
	take(t, s, reading(request("wish")))
}

// TestLuaNumbers finds integer formats in scripts. With a fraction they raise an error in Lua 5.4,
// which Dragonfly has.
func TestLuaNumbers(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("lua", "*.lua"))
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "'%d'") {
			t.Errorf("%s formats a number with %%d", f)
		}
	}
}
