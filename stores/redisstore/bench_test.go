package redisstore_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

func newToken() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// BenchmarkPair takes and releases a free name. The row "limit" runs only the plain recipe, on one
// connection of the same client.
func BenchmarkPair(b *testing.B) {
	for _, row := range []struct {
		name string
		opts []redisstore.Option
	}{
		{"limit", nil},
		{"string-plain", []redisstore.Option{redisstore.PlainStrings(), redisstore.NoFences()}},
		{"string-fences", []redisstore.Option{redisstore.PlainStrings()}},
		{"set-fences", nil},
	} {
		for _, workers := range []int{1, 64} {
			b.Run(row.name+"/"+strconv.Itoa(workers), func(b *testing.B) {
				srv := server.Redis(b, server.RedisOptions{})
				pair := limitPair(b, srv)
				if row.name != "limit" {
					pair = storePair(b, srv, row.opts)
				}
				run(b, srv, workers, pair)
			})
		}
	}
}

const compareAndDelete = `if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`

func limitPair(b *testing.B, srv *server.Server) func(name, token string) error {
	o := single(srv.Addr())
	o.DisableCache, o.DisableRetry, o.PipelineMultiplex = true, true, -1
	c, err := rueidis.NewClient(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	script, ctx := rueidis.NewLuaScript(compareAndDelete), context.Background()
	return func(name, token string) error {
		if err := c.Do(ctx, c.B().Set().Key(name).Value(token).Nx().PxMilliseconds(30000).Build()).Error(); err != nil {
			return err
		}
		return script.Exec(ctx, c, []string{name}, []string{token}).Error()
	}
}

func storePair(b *testing.B, srv *server.Server, opts []redisstore.Option) func(name, token string) error {
	ctx := context.Background()
	s, err := open(ctx, srv, opts...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	holder := driver.Holder{Host: "host.example", PID: 4711}
	return func(name, token string) error {
		if _, err := s.Acquire(ctx, driver.Request{Name: name, Token: driver.TokenOf(token), TTL: 30 * time.Second, Holder: holder}); err != nil {
			return err
		}
		out, err := s.Release(ctx, name, token, 0)
		if err == nil && out != driver.OutcomeReleased {
			err = fmt.Errorf("release: %v", out)
		}
		return err
	}
}

func run(b *testing.B, srv *server.Server, workers int, pair func(name, token string) error) {
	b.ReportAllocs()
	before, mine := serverCPU(b, srv), cpu()
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			name, token := "bench:"+strconv.Itoa(w), newToken()
			for range (b.N + workers - 1) / workers {
				if err := pair(name, token); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric((serverCPU(b, srv)-before)*1e6/float64(b.N), "server-cpu-µs/op")
	b.ReportMetric((cpu()-mine)*1e6/float64(b.N), "client-cpu-µs/op")
}

// serverCPU returns the processor time of the server so far, in seconds.
func serverCPU(b *testing.B, srv *server.Server) (seconds float64) {
	for _, m := range regexp.MustCompile(`used_cpu_(?:sys|user):([\d.]+)`).FindAllStringSubmatch(ask(b, srv, "INFO", "cpu"), -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		seconds += n
	}
	return seconds
}

// BenchmarkHandOver hands one name over between stores. Each store has its own connections, as a
// process would. An op is one hold.
func BenchmarkHandOver(b *testing.B) {
	for _, row := range []struct {
		name string
		opts []redisstore.Option
	}{
		{"set", nil},
		{"string", []redisstore.Option{redisstore.PlainStrings()}},
	} {
		for _, stores := range []int{2, 16} {
			b.Run(row.name+"/"+strconv.Itoa(stores), func(b *testing.B) { handOver(b, stores, row.opts) })
		}
	}
}

func handOver(b *testing.B, stores int, opts []redisstore.Option) {
	srv := server.Redis(b, server.RedisOptions{})
	var wg sync.WaitGroup
	var all []*redisstore.Store
	for range stores {
		all = append(all, opened(b, srv.Addr(), opts...))
	}
	before, calls := serverCPU(b, srv), commands(b, srv)
	b.ResetTimer()
	for _, s := range all {
		wg.Go(func() {
			for range (b.N + stores - 1) / stores {
				if err := holdOnce(b.Context(), s, "hot"); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric((serverCPU(b, srv)-before)*1e6/float64(b.N), "server-cpu-µs/op")
	b.ReportMetric(float64(commands(b, srv)-calls)/float64(b.N), "commands/op")
}

// holdOnce waits for a name as a Locker does, and releases it.
func holdOnce(ctx context.Context, s *redisstore.Store, name string) error {
	r := driver.Request{Name: name, Token: driver.TokenOf(newToken()), TTL: 30 * time.Second}
	_, err := s.Acquire(ctx, r)
	for errors.Is(err, driver.ErrHeld) {
		r.Token = driver.TokenOf(newToken())
		g, werr := s.Wait(ctx, r, true)
		if werr != nil {
			return werr
		}
		if g.TTL == 0 {
			r.Token = driver.TokenOf(newToken())
		}
		_, err = s.Acquire(ctx, r)
	}
	if err != nil {
		return err
	}
	out, err := s.Release(ctx, name, r.Token.Text(), 0)
	if err == nil && out != driver.OutcomeReleased {
		err = fmt.Errorf("release: %v", out)
	}
	return err
}

// commands returns the number of commands that clients have sent.
func commands(t testing.TB, srv *server.Server) (n int64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`cmdstat_(?:eval|evalsha):calls=(\d+)`).FindAllStringSubmatch(ask(t, srv, "INFO", "commandstats"), -1) {
		c, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n += c
	}
	return n
}
