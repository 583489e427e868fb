package redisstore_test

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// BenchmarkRenewals renews 10,000 holds in batches. It reports what the server's commandstats say
// about the scripts, for each renewal.
func BenchmarkRenewals(b *testing.B) {
	for layout, opts := range map[string][]redisstore.Option{"set": nil, "string": {redisstore.PlainStrings()}} {
		b.Run(layout, func(b *testing.B) {
			srv := server.Redis(b, server.RedisOptions{})
			s := opened(b, srv.Addr(), opts...)
			const holds, batch = 10_000, 128
			all := make([]fast.Extension, holds)
			var wg sync.WaitGroup
			for i := range all {
				r := request(fmt.Sprintf("bench:renewals:hold:%08d", i))
				all[i] = fast.Extension{Name: r.Name, Token: r.Token, TTL: 50 * time.Second}
				wg.Go(func() { take(b, s, r) })
			}
			wg.Wait()
			before := scriptMicros(b, srv)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N / batch {
				from := i * batch % (holds - batch)
				out, err := s.ExtendBatch(b.Context(), all[from:from+batch])
				if err != nil || out[0].Err != nil {
					b.Fatal(err, out[0].Err)
				}
			}
			b.StopTimer()
			b.ReportMetric((scriptMicros(b, srv)-before)/float64(b.N), "server-µs/op")
		})
	}
}

// scriptMicros returns the time that a server has spent in scripts that were called by their hash.
func scriptMicros(b *testing.B, srv *server.Server) float64 {
	b.Helper()
	m := regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=(\d+)`).FindStringSubmatch(ask(b, srv, "INFO", "commandstats"))
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
