package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// TestCoolDownWakesWaiters: a release turns a long lease into a short cool-down. Every waiter has
// planned its next look by the lease, so a message must ask it to look when the cool-down ends.
func TestCoolDownWakesWaiters(t *testing.T) {
	t.Parallel()
	const coolDown = 100 * time.Millisecond
	waitFor := func(change func(*driver.Request), reserve bool) func(context.Context, *redisstore.Store, driver.Request) {
		return func(ctx context.Context, s *redisstore.Store, r driver.Request) {
			change(&r)
			_, _ = s.Wait(ctx, r, reserve)
		}
	}
	exclusive := func(*driver.Request) {}
	for _, row := range []struct {
		name   string
		shared bool   // the hold is shared
		kind   string // the key that shows that the waiter is waiting, see docs/internals/redis.md
		wait   func(context.Context, *redisstore.Store, driver.Request)
		opts   []redisstore.Option
	}{
		{"queue", false, "q", waitFor(exclusive, true), nil},
		{"queue, strings", false, "q", waitFor(exclusive, true), []redisstore.Option{redisstore.PlainStrings()}},
		{"queue, a reader", false, "q", waitFor(func(r *driver.Request) { r.Shared = true }, true), nil},
		{"queue, behind readers", true, "q", waitFor(exclusive, true), nil},
		{"no place", false, "b", waitFor(exclusive, false), nil},
		{"no place, strings", false, "b", waitFor(exclusive, false), []redisstore.Option{redisstore.PlainStrings()}},
		{"no place, behind readers", true, "b", waitFor(exclusive, false), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			s, raw := opened(t, srv.Addr(), row.opts...), rawClient(t, single(srv.Addr()))
			sent := messages(t, raw)
			r := request("job")
			r.Shared = row.shared
			take(t, s, r)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go row.wait(ctx, opened(t, srv.Addr(), row.opts...), request("job"))
			eventually(t, "the waiter waits", func() bool { return companion(t, raw, row.kind, "job") != "none" })
			look := planned(t, raw, "job")
			if _, err := s.Release(t.Context(), r.Name, r.Token.Text(), coolDown); err != nil {
				t.Fatal(err)
			}
			if look.Before(time.Now().Add(coolDown)) {
				t.Fatal("the waiter looks before the cool-down ends")
			}
			wantLookBy(t, sent, coolDown)
		})
	}
}

// TestCoolDownWakesPromotion: of two readers, one waits to be promoted and the other one releases
// with a cool-down.
func TestCoolDownWakesPromotion(t *testing.T) {
	t.Parallel()
	const coolDown = 100 * time.Millisecond
	srv := server.Redis(t, server.RedisOptions{})
	s, other, raw := opened(t, srv.Addr()), opened(t, srv.Addr()), rawClient(t, single(srv.Addr()))
	sent := messages(t, raw)
	mine, theirs := reading(request("job")), reading(request("job"))
	take(t, s, mine)
	take(t, other, theirs)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		r := mine
		r.Shared = false
		_, _ = s.Wait(ctx, r, false)
	}()
	eventually(t, "the reader waits", func() bool {
		h := companion(t, raw, "h", "job")
		return h != "none" && askBy(t, raw, "HEXISTS", h, "p") == "1"
	})
	if _, err := other.Release(t.Context(), theirs.Name, theirs.Token.Text(), coolDown); err != nil {
		t.Fatal(err)
	}
	wantLookBy(t, sent, coolDown)
}

// TestCoolDownWakesPermits: with slots, the first waiter has the gate and watches every permit.
func TestCoolDownWakesPermits(t *testing.T) {
	t.Parallel()
	const coolDown = 100 * time.Millisecond
	srv := server.Redis(t, server.RedisOptions{})
	s, raw := opened(t, srv.Addr()), rawClient(t, single(srv.Addr()))
	sent := messages(t, raw)
	r := request("job")
	slot, _, err := s.AcquireSlot(t.Context(), r, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := padlock.New(opened(t, srv.Addr()), padlock.KeepStoreOpen())
	go func() { _, _ = l.Acquire(ctx, "job", padlock.Slots(1)) }()
	permit := fast.SlotName("job", slot)
	eventually(t, "the waiter watches the permit", func() bool { return companion(t, raw, "b", permit) != "none" })
	if _, err := s.Release(t.Context(), permit, r.Token.Text(), coolDown); err != nil {
		t.Fatal(err)
	}
	wantLookBy(t, sent, coolDown)
}

// messages returns a channel with all messages that scripts send.
func messages(t testing.TB, c rueidis.Client) <-chan string {
	t.Helper()
	sent, ready := make(chan string, 100), make(chan struct{})
	d, giveBack := c.Dedicate()
	t.Cleanup(giveBack)
	d.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { sent <- m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) { close(ready) },
	})
	if err := d.Do(t.Context(), d.B().Psubscribe().Pattern("padlock:*").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	<-ready
	return sent
}

// planned returns the time of the next look of a waiter in the queue, from its record. For a waiter
// without a place in the queue, which leaves no record, it returns a time far in the future.
func planned(t testing.TB, c rueidis.Client, name string) time.Time {
	t.Helper()
	h := companion(t, c, "h", name)
	fields, err := c.Do(t.Context(), c.B().Hgetall().Key(h).Build()).AsStrMap()
	if err != nil {
		t.Fatal(err)
	}
	for field, record := range fields {
		var seen, look int64
		if n, _ := fmt.Sscanf(record, "%d %d", &seen, &look); n == 2 && field[0] == 'w' {
			return time.UnixMilli(look)
		}
	}
	return time.Now().Add(time.Hour)
}

// wantLookBy waits for a message that asks a waiter to look when the cool-down ends, or earlier.
func wantLookBy(t testing.TB, sent <-chan string, coolDown time.Duration) {
	t.Helper()
	var others []string
	for end := time.After(20 * time.Second); ; {
		select {
		case m := <-sent:
			var id, ms int64
			if n, _ := fmt.Sscanf(m, "f %d %d", &id, &ms); n == 2 && ms <= coolDown.Milliseconds() {
				return
			}
			others = append(others, m)
		case <-end:
			t.Fatalf("no waiter was asked to look within %v; the messages were: %s", coolDown, strings.Join(others, ", "))
		}
	}
}
