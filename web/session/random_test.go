package session_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
)

// TestRandomUse sends several requests at once, and each calls random methods in several
// goroutines. The test looks for panics, deadlocks, data races and answers that are not documented.
func TestRandomUse(t *testing.T) {
	modes := []session.Mode{session.Delta, session.Exclusive, session.ReadOnly, session.LastWriteWins}
	for name, open := range stores {
		for _, locks := range []bool{true, false} {
			opts := []session.Option{plain, session.MaxWait(50 * time.Millisecond), session.RetryConflicts(1), session.MaxSize(3000)}
			use := modes
			if locks {
				opts = append(opts, session.Locker(newLocker(t)))
			} else {
				use = []session.Mode{session.Delta, session.ReadOnly, session.LastWriteWins}
			}
			m, err := session.New(open(), opts...)
			noError(t, err)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBrowser(t, m)
				b.putValue("k", 1)
				var wg sync.WaitGroup
				for range 4 {
					twin := b.twin()
					wg.Go(func() { twin.wander(use, 40) })
				}
				wg.Wait()
			})
		}
	}
}

// wander sends requests through random nested routes.
func (b *browser) wander(modes []session.Mode, requests int) {
	for range requests {
		mode := func() session.Mode { return modes[rand.IntN(len(modes))] }
		inner := b.m.With(mode())(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { manyHands(session.From(r.Context())) }))
		status := b.answer(func(w http.ResponseWriter, r *http.Request) {
			manyHands(session.From(r.Context()))
			inner.ServeHTTP(w, r)
		}, mode()).Code
		if status != 200 && status != 409 && status != 503 {
			b.t.Errorf("answered %d", status)
		}
	}
}

func manyHands(s *session.Session) {
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 3 {
				anything(s, 0)
			}
		})
	}
	wg.Wait()
}

// anything calls one method.
func anything(s *session.Session, depth int) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	key := string(rune('a' + rand.IntN(4)))
	calls := []func(){
		func() { session.Get[int](s, key) },
		func() { s.Put(key, rand.IntN(100)) },
		func() { s.Put(key, make([]int, rand.IntN(800))) },
		func() { s.Delete(key) },
		func() { s.Incr(bg, "n"+key, 1) },
		func() { session.Take[any](bg, s, key) },
		func() { s.Keys() },
		func() { s.Watch(key) },
		func() {
			s.Update(ctx, func(_ context.Context, tx *session.Session) error { anything(tx, depth+1); return nil })
		},
		func() {
			s.Update(ctx, func(_ context.Context, tx *session.Session) error { anything(tx, depth+1); return errors.New("no") })
		},
		func() { s.Regenerate(ctx, session.GracePeriod(time.Duration(rand.IntN(100))*time.Millisecond)) },
		func() { s.Regenerate(ctx, session.GracePeriod(time.Second)) },
		func() { s.IgnoreRefused() },
	}
	rare := []func(){func() { s.Destroy(ctx) }, func() { s.Commit(ctx) }, s.Abandon}
	if rand.IntN(20) == 0 {
		calls = rare
	}
	if f := calls[rand.IntN(len(calls))]; depth < 3 {
		f()
	}
}
