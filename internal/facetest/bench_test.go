package facetest

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

func BenchmarkUncontended(b *testing.B) {
	b.Run("semaphore", func(b *testing.B) {
		c := make(chan struct{}, 1)
		for b.Loop() {
			c <- struct{}{}
			<-c
		}
	})
	for name, opts := range map[string][]padlock.LockerOption{
		"memstore":           nil,
		"memstore, observed": {padlock.Observe(padlock.ObserverFunc(func(context.Context, padlock.Event) {}))},
		"memstore, logged":   {padlock.Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))},
	} {
		b.Run(name, func(b *testing.B) {
			l := padlock.New(memstore.New(), opts...)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				h, err := l.Acquire(ctx, "name")
				if err != nil {
					b.Fatal(err)
				}
				h.Release()
			}
		})
	}
}

func BenchmarkHandOver(b *testing.B) {
	const waiters = 1000
	b.Run("channel", func(b *testing.B) {
		c, n := make(chan struct{}), 0
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				for range c {
					if n++; n >= b.N {
						close(c)
						return
					}
					c <- struct{}{}
				}
			})
		}
		b.ResetTimer()
		c <- struct{}{}
		wg.Wait()
	})
	// In each round, 1,000 goroutines wait already, and each takes the lock once.
	b.Run("memstore", func(b *testing.B) {
		l := padlock.New(memstore.New())
		ctx := context.Background()
		for left := b.N; left > 0; left -= waiters {
			b.StopTimer()
			first, err := l.Acquire(ctx, "name")
			if err != nil {
				b.Fatal(err)
			}
			var wg sync.WaitGroup
			for range waiters {
				wg.Go(func() {
					h, err := l.Acquire(ctx, "name")
					if err != nil {
						b.Error(err)
						return
					}
					h.Release()
				})
			}
			for l.Stats().Waiting < waiters {
				runtime.Gosched()
			}
			b.StartTimer()
			first.Release()
			wg.Wait()
		}
	})
}

// BenchmarkSeveralNames compares three names at once with one name, and with three calls that each
// take one of the names.
func BenchmarkSeveralNames(b *testing.B) {
	ctx, names := context.Background(), []string{"stock", "invoices", "nightly-report"}
	l := padlock.New(memstore.New())
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h, err := l.Acquire(ctx, "nightly-report")
			if err != nil {
				b.Fatal(err)
			}
			h.Release()
		}
	})
	b.Run("three calls", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var held [3]*padlock.Lock
			for i, name := range names {
				h, err := l.Acquire(ctx, name)
				if err != nil {
					b.Fatal(err)
				}
				held[i] = h
			}
			for i := range held {
				held[2-i].Release()
			}
		}
	})
	b.Run("three names", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			all, err := l.AcquireAll(ctx, names)
			if err != nil {
				b.Fatal(err)
			}
			all.Release()
		}
	})
}
