package drivertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Benchmark measures the cost of a hold in three ways. In "alone", one caller takes the name and
// gives it back. "shared" does the same with a shared hold, if the store has shared holds. In
// "contended", 8 goroutines wait for one name. An operation is one hold, from Acquire to the end of
// Release.
func Benchmark(b *testing.B, h Harness) {
	r, err := start(h)
	if err != nil {
		b.Fatalf("the store does not open: %v", err)
	}
	defer r.finish()
	b.Run("alone", func(b *testing.B) { r.benchAlone(b, false) })
	if r.g.Shared {
		b.Run("shared", func(b *testing.B) { r.benchAlone(b, true) })
	}
	b.Run("contended", func(b *testing.B) { r.benchContended(b, 8) })
}

func (r *run) benchRequest(name string) driver.Request {
	return driver.Request{Name: name, Token: newToken(), TTL: r.long(), Holder: testHolder}
}

func (r *run) benchAlone(b *testing.B, shared bool) {
	ctx, q := context.Background(), r.benchRequest(r.uniqueStem()+"bench")
	q.Shared = shared
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		// Each hold needs a new token. benchToken makes one quickly, because the benchmark should
		// not measure how long a random token takes.
		q.Token = benchToken(q.Token, i)
		if _, err := r.a.Acquire(ctx, q); err != nil {
			b.Fatal(err)
		}
		if o, err := r.a.Release(ctx, q.Name, q.Token, 0); err != nil || o != driver.OutcomeReleased {
			b.Fatalf("Release returns %q, %v", o, err)
		}
	}
}

// benchToken replaces the last digits of a token by i.
func benchToken(token string, i int) string {
	digits := []byte(token[len(token)-9 : len(token)-1])
	for d := range digits {
		digits[d] = 'A' + byte(i&15)
		i >>= 4
	}
	return token[:len(token)-9] + string(digits) + "="
}

// benchContended makes n goroutines of two processes take one name in turn.
func (r *run) benchContended(b *testing.B, n int) {
	name := r.uniqueStem() + "bench"
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for i := range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := r.benchTurn([]driver.Store{r.a, r.b}[i%2], name); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// benchTurn waits for the name, takes it and gives it back.
func (r *run) benchTurn(s driver.Store, name string) error {
	ctx, q := context.Background(), r.benchRequest(name)
	_, err := s.Acquire(ctx, q)
	for errors.Is(err, driver.ErrHeld) {
		if err = r.benchWait(ctx, s, &q); err == nil {
			_, err = s.Acquire(ctx, q)
		}
	}
	if err != nil {
		return err
	}
	_, err = s.Release(ctx, q.Name, q.Token, 0)
	return err
}

// benchWait waits until the name may be free. It sets q.Token to the token for the next Acquire.
func (r *run) benchWait(ctx context.Context, s driver.Store, q *driver.Request) error {
	q.Token = newToken()
	if !r.has.wait {
		<-time.After(time.Millisecond)
		return nil
	}
	g, err := ability[driver.Waiter](s).Wait(ctx, *q, true)
	if err == nil && !handed(g) {
		q.Token = newToken()
	}
	return err
}
