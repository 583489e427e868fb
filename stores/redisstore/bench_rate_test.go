package redisstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
)

// BenchmarkRate limits a rate: at most three starts in 300 ms. Twelve processes want to start all
// the time, so a start should take 100 ms.
func BenchmarkRate(b *testing.B) {
	srv := server.Redis(b, server.RedisOptions{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var starts atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range 12 {
		locker := padlock.New(opened(b, srv.Addr()), padlock.KeepStoreOpen(), padlock.Slots(3), padlock.HoldAtLeast(300*time.Millisecond))
		all.Go(func() {
			for ctx.Err() == nil {
				k, err := locker.Acquire(ctx, "job", padlock.Wait(time.Minute))
				if err != nil {
					if ctx.Err() == nil {
						b.Error(err)
					}
					return
				}
				if starts.Add(1) == int64(b.N) {
					cancel()
				}
				pause(ctx, 60*time.Millisecond) // the job
				if err := k.Release(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(time.Since(began).Seconds()*1000/float64(b.N), "ms/start")
}
