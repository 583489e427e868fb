package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// Permits are handed over between clients, with both layouts. No two clients use the same permit at
// the same time, and no client loses a permit before its lease ends. A caller with FenceAbove
// tries one permit after the other, and waits in the same queue.
func TestPermitsPassBetweenClients(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		store []redisstore.Option
		other []padlock.Option // the options of every other client
	}{
		{name: "set"},
		{name: "string", store: []redisstore.Option{redisstore.PlainStrings()}},
		{name: "set, others wait for the gate", other: []padlock.Option{padlock.FenceAbove(1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			var clients []*permitClient
			for i := range 16 {
				p := &permitClient{t: t, opts: []padlock.Option{padlock.Slots(3)}}
				if i%2 == 1 {
					p.opts = append(p.opts, c.other...)
				}
				p.l = padlock.New(&leaseWatch{opened(t, srv.Addr(), c.store...), p}, padlock.KeepStoreOpen(), padlock.Observe(p))
				clients = append(clients, p)
			}
			passPermits(t, clients)
		})
	}
}

// permitClient takes one permit after the other. It knows until when it may use its permit.
type permitClient struct {
	t    *testing.T
	l    *padlock.Locker
	opts []padlock.Option

	mu    sync.Mutex
	token string         // of the permit
	until driver.Instant // when the lease of the permit ends by this process's clock
	uses  []permitUse
	lost  int
}

// permitUse is one use of a permit, in which the client knew that it had the permit.
type permitUse struct {
	slot       int
	fence      uint64
	begin, end driver.Instant
}

// Observe implements padlock.Observer.
func (p *permitClient) Observe(_ context.Context, e padlock.Event) {
	if e.Kind == padlock.EventLost {
		p.noteLoss("", "the Locker reports a loss")
	}
}

// noteLoss is called when it has been decided that a permit is lost. Without a token it is the
// permit that the client has.
func (p *permitClient) noteLoss(token, what string) {
	now := driver.SystemClock().Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if token != "" && token != p.token {
		return // this release cleans up after an earlier request
	}
	p.lost++
	if now < p.until {
		p.t.Errorf("%s %v before the end of the lease", what, p.until.Sub(now))
	}
}

// noteLease is called for each grant of a permit or of a longer lease.
func (p *permitClient) noteLease(token string, sent driver.Instant, g driver.Grant) {
	if g.From != 0 {
		sent = g.From
	}
	// The Locker stops earlier than the lease ends, because clocks differ and stopping takes time.
	margin := g.TTL/100 + min(2*time.Millisecond, g.TTL/20) + min(50*time.Millisecond, g.TTL/10)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token, p.until = token, sent.Add(g.TTL-margin)
}

// run takes a permit ten times.
func (p *permitClient) run(ctx context.Context) {
	for range 10 {
		k, err := p.l.Acquire(ctx, "job", p.opts...)
		if err != nil {
			p.t.Error(err)
			return
		}
		u := permitUse{slot: k.Slot(), fence: k.Fence(), begin: driver.SystemClock().Now()}
		<-time.After(time.Millisecond)
		p.mu.Lock()
		u.end = min(driver.SystemClock().Now(), p.until)
		p.uses = append(p.uses, u)
		p.mu.Unlock()
		switch err := k.Release(); {
		case errors.Is(err, padlock.ErrLost):
			p.noteLoss("", "Release returns ErrLost")
		case err != nil:
			p.t.Error(err)
		}
	}
}

// leaseWatch tells a permitClient which leases it gets, and what its releases find.
type leaseWatch struct {
	*redisstore.Store
	p *permitClient
}

func (w *leaseWatch) AcquireSlot(ctx context.Context, r driver.Request, n int, overtake bool) (int, driver.Grant, error) {
	sent := driver.SystemClock().Now()
	slot, g, err := w.Store.AcquireSlot(ctx, r, n, overtake)
	if err == nil {
		w.p.noteLease(r.Token.Text(), sent, g)
	}
	return slot, g, err
}

func (w *leaseWatch) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	sent := driver.SystemClock().Now()
	g, err := w.Store.Acquire(ctx, r)
	if _, slot, ok := fast.SplitSlot(r.Name); ok && slot >= 0 && err == nil {
		w.p.noteLease(r.Token.Text(), sent, g)
	}
	return g, err
}

func (w *leaseWatch) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	out, err := w.Store.Release(ctx, name, token, keep)
	if _, slot, ok := fast.SplitSlot(name); ok && slot >= 0 && err == nil && out != driver.OutcomeReleased {
		w.p.noteLoss(token, "a release finds no hold")
	}
	return out, err
}

// passPermits lets all clients run, and checks that the uses of each permit come one after the
// other, with greater and greater fences.
func passPermits(t *testing.T, clients []*permitClient) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range clients {
		all.Go(func() { p.run(ctx) })
	}
	all.Wait()
	var uses []permitUse
	for _, p := range clients {
		uses = append(uses, p.uses...)
		if p.lost > 0 {
			t.Logf("a client lost %d permits", p.lost)
		}
	}
	if len(uses) != 10*len(clients) {
		t.Errorf("%d uses of permits", len(uses))
	}
	slices.SortFunc(uses, func(a, b permitUse) int {
		if a.slot != b.slot {
			return a.slot - b.slot
		}
		return int(int64(a.fence) - int64(b.fence))
	})
	for i, u := range uses {
		if i == 0 || uses[i-1].slot != u.slot {
			continue
		}
		before := uses[i-1]
		if u.fence == before.fence || u.begin < u.end && before.begin < before.end && u.begin < before.end {
			t.Errorf("permit %d: a use with the fence %d begins %v before the end of the use with the fence %d", u.slot, u.fence, before.end.Sub(u.begin), before.fence)
		}
	}
}

// A caller that wants permit 0 gets it, although callers with a greater number of permits hand all
// permits over to each other.
func TestOneOfFewerPermits(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	busy, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	var taken atomic.Int64
	started := make(chan struct{})
	for range 6 {
		l := padlock.New(opened(t, srv.Addr()), padlock.KeepStoreOpen())
		all.Go(func() {
			for busy.Err() == nil {
				_ = l.Do(busy, "job", func(context.Context) error {
					if taken.Add(1) == 20 {
						close(started)
					}
					<-time.After(time.Millisecond)
					return nil
				}, padlock.Slots(2))
			}
		})
	}
	select {
	case <-started:
	case <-ctx.Done():
		t.Error("20 permits were not taken within a minute")
	}
	l := padlock.New(opened(t, srv.Addr()), padlock.KeepStoreOpen())
	k, err := l.Acquire(ctx, "job", padlock.Slots(1))
	if err != nil {
		t.Errorf("a caller with one permit: %v", err)
	} else if err := k.Release(); err != nil || k.Slot() != 0 {
		t.Errorf("permit %d: %v", k.Slot(), err)
	}
	stop()
	all.Wait()
}
