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
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// readers holds the name "job" shared from now on, in two processes. Each holds it until the next
// one has come, or for half a second. So the name is never free while readers are let in. They end
// with the test.
func readers(t *testing.T, srv *server.Server, opts ...redisstore.Option) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var came atomic.Int64
	stay := func(context.Context) error {
		mine, tick, end := came.Add(1), time.NewTicker(5*time.Millisecond), time.After(500*time.Millisecond)
		defer tick.Stop()
		for came.Load() == mine {
			select {
			case <-tick.C:
			case <-end:
				return nil
			}
		}
		<-tick.C
		return nil
	}
	for range 2 {
		l := locker(t, srv, opts...)
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if err := l.Do(ctx, "job", stay, padlock.Shared()); err != nil && ctx.Err() == nil {
						t.Errorf("a reader: %v", err)
						return
					}
				}
			})
		}
	}
	t.Cleanup(func() { // before the lockers are closed
		cancel()
		wg.Wait()
	})
}

// TestPHPWriterBesideReaders has a PHP writer wait for a name that padlock's readers
// never leave free: with foreign=yes padlock lets no new ones in when the name was
// in use for a second and somebody has looked at it.
func TestPHPWriterBesideReaders(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	readers(t, srv, redisstore.Foreign())
	s := opened(t, srv)
	eventually(t, "the readers overlap", func() bool {
		st, err := s.Inspect(t.Context(), "job")
		return err == nil && len(st.Holds) > 1
	})
	p := startPHP(t, srv, "")
	p.lock("warm").must("acquire")
	for range 3 {
		writer := p.lock("job")
		began := time.Now()
		writer.begin(phpRequest{Do: "wait"})
		select {
		case a := <-p.out:
			if !a.OK {
				t.Fatalf("%+v", a)
			}
		case <-time.After(patience):
			t.Fatalf("padlock's readers kept a PHP writer waiting for %v", patience)
		}
		t.Logf("PHP waited for %v", time.Since(began).Round(time.Millisecond))
		writer.must("release")
	}
}

// TestReadersAmongThemselves keeps a long reader in the name. While there is no writer, other
// readers come and go as long as they like.
func TestReadersAmongThemselves(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv, redisstore.Foreign())
	take(t, s, reading("job"))
	<-time.After(1500 * time.Millisecond)
	for range 3 {
		r := reading("job")
		take(t, s, r)
		free(t, s, r)
	}
	// A PHP reader that polls gets in. From then on no other process gets in next to that reader.
	php := startPHP(t, srv, "").lock("job")
	php.must("read")
	php.must("release")
	held := refused(t, s, reading("job"))
	if len(held.Holds) != 1 || !held.Holds[0].Shared {
		t.Errorf("after a PHP program has looked at the name: %+v", held.Holds)
	}
}

var evalshaCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

// TestPromotionNoticesPHP waits for a promotion until a PHP reader leaves. With foreign=yes it
// polls every 25 ms, like waiters for the name.
func TestPromotionNoticesPHP(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	l := locker(t, srv, redisstore.Foreign())
	lock, err := l.Acquire(t.Context(), "job", padlock.Shared())
	if err != nil {
		t.Fatal(err)
	}
	php := startPHP(t, srv, "").lock("job")
	php.must("read")
	raw := rawClient(t, srv)
	looks := func() int {
		info, err := raw.Do(t.Context(), raw.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(evalshaCalls.FindStringSubmatch(info)[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	promoted := make(chan error, 1)
	go func() { promoted <- lock.Promote(t.Context()) }()
	before := looks()
	eventually(t, "it has looked twenty times", func() bool { return looks() >= before+20 })
	php.must("release")
	if err := <-promoted; err != nil {
		t.Error(err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}
