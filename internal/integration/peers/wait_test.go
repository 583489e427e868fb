package peers

import (
	"context"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// TestPHPWaits has each side wait for the other to give the name back.
func TestPHPWaits(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	raw := rawClient(t, srv)
	for _, opts := range [][]redisstore.Option{nil, {redisstore.Foreign()}} {
		l, p := locker(t, srv, opts...), startPHP(t, srv, "")
		theirs := p.lock("job")
		lock, err := l.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		looked := phpLooks(t, raw)
		theirs.begin(phpRequest{Do: "wait"})
		eventually(t, "PHP waits", func() bool { return phpLooks(t, raw) > looked })
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		if a := <-p.out; !a.OK {
			t.Fatalf("PHP, which waited: %+v", a)
		}
		got := make(chan error, 1)
		go func() {
			var err error
			lock, err = l.Acquire(t.Context(), "job", padlock.Wait(patience))
			got <- err
		}()
		eventually(t, "we wait", func() bool {
			st, err := l.Inspect(t.Context(), "job")
			return err == nil && st.Waiters == 1
		})
		theirs.must("release")
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}
}

// crowd is padlock's load on one name: two processes of three goroutines. One of them always waits,
// so each release hands over directly.
type crowd struct {
	t      testing.TB
	inside atomic.Int64
	holds  atomic.Int64 // ours
	waited atomic.Int64 // the longest wait of padlock, in nanoseconds
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newCrowd(t testing.TB, srv *server.Server, opts ...redisstore.Option) *crowd {
	c := &crowd{t: t}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(t.Context())
	for range 2 {
		l := locker(t, srv, opts...)
		for range 3 {
			c.wg.Go(func() {
				for ctx.Err() == nil {
					c.visit(ctx, l)
				}
			})
		}
	}
	t.Cleanup(c.stop) // before the lockers are closed
	return c
}

func (c *crowd) stop() {
	c.cancel()
	c.wg.Wait()
}

func (c *crowd) visit(ctx context.Context, l *padlock.Locker) {
	asked := time.Now()
	lock, err := l.Acquire(ctx, "job")
	if ctx.Err() != nil {
		if err == nil {
			err = lock.Release()
			if err != nil {
				c.t.Errorf("Release: %v", err)
			}
		}
		return
	}
	if err != nil {
		c.t.Errorf("Acquire: %v", err)
		c.cancel()
		return
	}
	if n := c.inside.Add(1); n > 1 {
		safety.TwoHold(c.t, "%d holders of padlock have the name", n)
	}
	if took := int64(time.Since(asked)); took > c.waited.Load() {
		c.waited.Store(took)
	}
	<-time.After(2 * time.Millisecond)
	c.holds.Add(1)
	c.inside.Add(-1)
	if err := lock.Release(); err != nil {
		c.t.Errorf("Release: %v", err)
	}
}

// TestPHPAndWeTakeTurns keeps a PHP worker and a crowd of padlock on one name.
// With foreign=yes the name is left free for 130 ms when padlock has used it
// for 1 s without a pause, and PHP looks every 110 ms at the latest: it gets
// its turn within about 1.2 s and a hold. We look again when the gap is over, and
// every 25 ms while PHP has the name, which it leaves alone for 30 ms at a time.
func TestPHPAndWeTakeTurns(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	p := startPHP(t, srv, "")
	p.lock("warm").must("acquire")
	c := newCrowd(t, srv, redisstore.Foreign())
	eventually(t, "we are at work", func() bool { return c.holds.Load() > 20 })
	p.lock("job").begin(phpRequest{Do: "work", Times: 1 << 20})
	deadline := time.After(patience)
	var longest time.Duration
	began, last, turns := time.Now(), c.holds.Load(), 0
	for changes := 0; changes < 3; turns++ {
		select {
		case a := <-p.out:
			if !a.OK || a.Did != "in" {
				t.Fatalf("%+v", a)
			}
		case <-deadline:
			t.Fatalf("within %v it went %d times from us to PHP, which had %d turns, and we %d", patience, changes, turns, c.holds.Load())
		}
		longest, began = max(longest, time.Since(began)), time.Now()
		if now := c.holds.Load(); now > last {
			last, changes = now, changes+1
		}
	}
	eventually(t, "we go on", func() bool { return c.holds.Load() > last+20 })
	c.stop()
	t.Logf("PHP had %d turns and waited %v at most, we had %d and waited %v at most", turns,
		longest.Round(time.Millisecond), c.holds.Load(), time.Duration(c.waited.Load()).Round(time.Millisecond))
}

// rawClient speaks to the server past all stores.
func rawClient(t testing.TB, srv *server.Server) rueidis.Client {
	t.Helper()
	o := single(srv.Addr())
	o.DisableCache = true
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var evalCalls = regexp.MustCompile(`cmdstat_eval:calls=(\d+)`)

// phpLooks counts what PHP has asked: it sends EVAL, we send EVALSHA.
func phpLooks(t testing.TB, c rueidis.Client) int {
	t.Helper()
	info, err := c.Do(t.Context(), c.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	m := evalCalls.FindStringSubmatch(info)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPHPMayStarveWithoutForeign documents a limit: without foreign=yes a name is handed over from
// one padlock waiter to the next, and is never free when PHP polls. A turn that is not claimed
// within 500 ms may go to PHP.
func TestPHPMayStarveWithoutForeign(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	p, l := startPHP(t, srv, ""), [2]*padlock.Locker{locker(t, srv), locker(t, srv)}
	const turns = 20
	if in := handOvers(t, p.lock("job"), l, turns); in > 1 {
		t.Errorf("PHP, which looked at each of %d hand-overs, had %d turns: docs/php.md says otherwise", turns, in)
	}
}

// handOvers hands the name "job" over from one process to the other, and PHP looks each time. It
// returns how often PHP got the name.
func handOvers(t *testing.T, theirs *phpLock, l [2]*padlock.Locker, turns int) (in int) {
	t.Helper()
	look := func() {
		if theirs.ask("acquire", 0).OK {
			in++
			theirs.must("release")
		}
	}
	lock, err := l[0].Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	for i := range turns {
		got := make(chan error, 1)
		before := lock
		go func() {
			var err error
			lock, err = l[(i+1)%2].Acquire(t.Context(), "job", padlock.Wait(patience))
			got <- err
		}()
		eventually(t, "the next one waits", func() bool {
			st, err := l[0].Inspect(t.Context(), "job")
			return err == nil && st.Waiters == 1
		})
		if err := before.Release(); err != nil {
			t.Fatal(err)
		}
		look()
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		look()
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
	return in
}
