package facetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// handClock is a clock that advances only by advance.
type handClock struct {
	mu     sync.Mutex
	now    driver.Instant
	timers map[int]timer
	made   int
}

type timer struct {
	at driver.Instant
	f  func()
}

func (c *handClock) Now() driver.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Nap() time.Duration { return 0 }

func (c *handClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	id := c.made
	c.timers[id] = timer{c.now.Add(d), f}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.timers[id]
		delete(c.timers, id)
		return waiting
	}
}

// advance moves the time forward, and calls the functions whose time has come.
func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []func()
	for id, t := range c.timers {
		if t.at <= c.now {
			due = append(due, t.f)
			delete(c.timers, id)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

// yesStore grants every request at once, so that a benchmark shows the costs of the Locker alone.
type yesStore struct{}

func (yesStore) Acquire(_ context.Context, r driver.Request) (driver.Grant, error) {
	return driver.Grant{TTL: r.TTL}, nil
}

func (yesStore) Extend(_ context.Context, _, _ string, ttl time.Duration) (driver.Grant, error) {
	return driver.Grant{TTL: ttl}, nil
}

func (yesStore) ExtendBatch(_ context.Context, all []fast.Extension) ([]fast.Extended, error) {
	answers := make([]fast.Extended, len(all))
	for i := range all {
		answers[i].Grant.TTL = all[i].TTL
	}
	return answers, nil
}

func (yesStore) Release(context.Context, string, string, time.Duration) (driver.Outcome, error) {
	return driver.OutcomeReleased, nil
}

func (yesStore) Guarantees() driver.Guarantees {
	return driver.Guarantees{Store: "yes", Lease: true}
}

func (yesStore) Close() error { return nil }

// BenchmarkRenewals renews the leases of many holds with batches, without a server. The figure must
// not depend on the number of holds, apart from the processor's caches.
func BenchmarkRenewals(b *testing.B) {
	for _, holds := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(holds), func(b *testing.B) {
			clock := &handClock{now: 1, timers: make(map[int]timer)}
			l := padlock.New(yesStore{}, padlock.WithClock(clock))
			ctx := context.Background()
			for i := range holds {
				if i%100 == 0 {
					clock.advance(padlock.DefaultTTL / 3 * 100 / time.Duration(holds))
				}
				if _, err := l.Acquire(ctx, fmt.Sprint(i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			renewals := uint64(0)
			for renewals < uint64(b.N) {
				b.StopTimer()
				before := l.Stats().Renewals
				b.StartTimer()
				clock.advance(100 * time.Millisecond)
				for last := before; ; { // until the workers have nothing to do
					runtime.Gosched()
					n := l.Stats().Renewals
					if n == last {
						break
					}
					last = n
				}
				renewals += l.Stats().Renewals - before
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(renewals), "ns/renewal")
			b.StopTimer()
			if lost := l.Stats().Lost; lost > 0 {
				b.Fatalf("%d locks were lost", lost)
			}
		})
	}
}
