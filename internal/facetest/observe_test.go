package facetest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A failed acquire has the outcome that a metric needs, and its duration.
func TestOutcomeOfAnAcquire(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	acquires := func(opts ...padlock.Option) func(context.Context, *padlock.Locker) {
		return func(ctx context.Context, l *padlock.Locker) { l.Acquire(ctx, "job", opts...) }
	}
	for name, c := range map[string]struct {
		trouble trouble
		acquire func(context.Context, *padlock.Locker)
		want    padlock.Outcome
		took    time.Duration
	}{
		"another name":      {nil, func(ctx context.Context, l *padlock.Locker) { l.Acquire(ctx, "free") }, padlock.OutcomeAcquired, 0},
		"held":              {nil, func(ctx context.Context, l *padlock.Locker) { l.TryAcquire(ctx, "job") }, padlock.OutcomeHeld, 0},
		"would be too long": {nil, acquires(padlock.SkipIfOutlived(), padlock.Wait(time.Second)), padlock.OutcomeHeld, 0},
		"end of Wait":       {nil, acquires(padlock.Wait(3 * time.Second)), padlock.OutcomeTimeout, 3 * time.Second},
		"deadline":          {nil, acquires(padlock.Wait(time.Minute)), padlock.OutcomeTimeout, 5 * time.Second},
		"cancelled":         {nil, func(_ context.Context, l *padlock.Locker) { l.Acquire(ended, "job") }, padlock.OutcomeCanceled, 0},
		"unavailable":       {fails(padlock.ErrUnavailable), acquires(), padlock.OutcomeUnavailable, 0},
		"uncertain":         {lost, acquires(), padlock.OutcomeUncertain, 60 * time.Millisecond},
		"invalid":           {nil, acquires(padlock.TTL(1)), padlock.OutcomeInvalid, 0},
		"unsupported":       {fails(errors.ErrUnsupported), acquires(), padlock.OutcomeInvalid, 0},
		"gone":              {nil, func(ctx context.Context, l *padlock.Locker) { l.Adopt(ctx, keyOf("job")) }, padlock.OutcomeLost, 0},
		"closed":            {fails(driver.ErrClosed), acquires(), padlock.OutcomeClosed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec recorder
				store := newRemote()
				other := newLocker(t, store.Store.Open())
				acquire(t, other, "job")
				l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(rec.on)))
				if c.trouble != nil {
					store.request("acquire", c.trouble)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				c.acquire(ctx, l)
				e := rec.all()[len(rec.all())-1]
				if e.Outcome != c.want || e.Took < c.took || e.Took > c.took+60*time.Millisecond || e.Store != "memory" {
					t.Errorf("want %v after %v: %+v", c.want, c.took, e)
				}
				if first := rec.all()[0]; first.Kind != padlock.EventAcquiring || first.Name != e.Name || first.Outcome != padlock.OutcomeNone {
					t.Errorf("the first event is %+v", first)
				}
				store.heal()
			})
		})
	}
}

// keyOf returns a key that does not come from an exported lock.
func keyOf(name string) padlock.Key {
	key, err := padlock.ParseKey(keyText(name, "token"))
	if err != nil {
		panic(err)
	}
	return key
}

func TestOutcomeOfAHold(t *testing.T) {
	for name, c := range map[string]struct {
		opts []padlock.Option
		do   func(*remote, *padlock.Lock)
		want []padlock.EventKind
		ends []padlock.Outcome // of want
	}{
		"released": {nil, func(_ *remote, h *padlock.Lock) { h.Release() },
			[]padlock.EventKind{padlock.EventReleasing, padlock.EventReleased},
			[]padlock.Outcome{padlock.OutcomeReleased, padlock.OutcomeReleased}},
		"broken": {nil, func(r *remote, h *padlock.Lock) { r.breakJob(); h.Check(context.Background()); h.Release() },
			[]padlock.EventKind{padlock.EventLost, padlock.EventReleased},
			[]padlock.Outcome{padlock.OutcomeLost, padlock.OutcomeLost}},
		"broken and released": {nil, func(r *remote, h *padlock.Lock) { r.breakJob(); h.Release() },
			[]padlock.EventKind{padlock.EventReleasing, padlock.EventReleased},
			[]padlock.Outcome{padlock.OutcomeReleased, padlock.OutcomeLost}},
		"no renewal": {[]padlock.Option{padlock.NoRenewal()}, func(_ *remote, h *padlock.Lock) { <-h.Context().Done(); h.Release() },
			[]padlock.EventKind{padlock.EventEnded, padlock.EventReleased},
			[]padlock.Outcome{padlock.OutcomeExpired, padlock.OutcomeExpired}},
		"renewals fail": {nil, func(r *remote, h *padlock.Lock) { r.request("extend", lost); <-h.Context().Done() },
			[]padlock.EventKind{padlock.EventLost}, []padlock.Outcome{padlock.OutcomeExpired}},
		"HoldAtMost": {[]padlock.Option{padlock.HoldAtMost(time.Second)}, func(_ *remote, h *padlock.Lock) { <-h.Context().Done() },
			[]padlock.EventKind{padlock.EventEnded}, []padlock.Outcome{padlock.OutcomeMaxHold}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec recorder
				store := newRemote()
				l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(rec.on)))
				h := acquire(t, l, "job", c.opts...)
				start := time.Now()
				c.do(store, h)
				synctest.Wait()
				ends := slices.DeleteFunc(rec.all(), func(e padlock.Event) bool { return !slices.Contains(c.want, e.Kind) })
				if len(ends) != len(c.want) {
					t.Fatalf("%+v", ends)
				}
				for i, e := range ends {
					if e.Kind != c.want[i] || e.Outcome != c.ends[i] || e.Fence != h.Fence() || e.Took != time.Since(start) {
						t.Errorf("want %v, %v after %v: %+v", c.want[i], c.ends[i], time.Since(start), e)
					}
				}
				store.heal()
			})
		})
	}
}

// A renewal says how much of the lease was left when it was confirmed.
func TestSlackOfARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		store := newRemote()
		l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(rec.on)))
		store.request("extend", takes(2*time.Second))
		h := acquire(t, l, "job")
		usable := h.Remaining()
		start := time.Now()
		<-time.After(15 * time.Second)
		e := rec.last(padlock.EventRenewed)
		if took := e.Took; took != 2*time.Second {
			t.Errorf("the renewal took %v", took)
		}
		if e.Slack < usable-13*time.Second-2*time.Second || e.Slack > usable-8*time.Second-2*time.Second {
			t.Errorf("slack %v of %v", e.Slack, usable)
		}
		store.request("extend", lost)
		before := h.Remaining()
		<-time.After(10 * time.Second)
		if e := rec.last(padlock.EventRenewFailed); e.Slack <= 0 || e.Slack >= before || e.Outcome != padlock.OutcomeError || !errors.Is(e.Err, errReset) {
			t.Errorf("%+v; %v after %v", e, before, time.Since(start))
		}
		store.heal()
		release(t, h)
	})
}

// tracer records in the contexts that it derives which acquires, holds and releases have begun.
type tracer struct {
	recorder
	seen []string // kind of the event, and what had begun before
}

type spanKey struct{}

func (r *tracer) Observe(ctx context.Context, e padlock.Event) {
	r.on(ctx, e)
	r.mu.Lock()
	defer r.mu.Unlock()
	span, _ := ctx.Value(spanKey{}).(string)
	r.seen = append(r.seen, e.Kind.String()+" in "+span)
}

func (r *tracer) ObserveStart(ctx context.Context, e padlock.Event) context.Context {
	r.Observe(ctx, e)
	span, _ := ctx.Value(spanKey{}).(string)
	return context.WithValue(ctx, spanKey{}, span+"/"+e.Kind.String())
}

// The values that an observer adds to a context reach the requests, the work and the events.
func TestContextsOfAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first, second tracer
		store := newRemote()
		l := newLocker(t, store, padlock.Observe(&first), padlock.Observe(&second))
		ctx := context.WithValue(t.Context(), spanKey{}, "web")
		var work any
		err := l.Do(ctx, "job", func(ctx context.Context) error {
			work = ctx.Value(spanKey{})
			<-time.After(15 * time.Second)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := "web/acquiring/acquiring/acquired/acquired"; work != want {
			t.Errorf("the work runs in %v, want %v", work, want)
		}
		want := []string{
			"acquiring in web", "acquired in web/acquiring/acquiring", "renewed in web/acquiring/acquiring/acquired/acquired",
			"releasing in web/acquiring/acquiring/acquired/acquired",
			"released in web/acquiring/acquiring/acquired/acquired/releasing/releasing",
		}
		if !slices.Equal(first.seen, want) {
			t.Errorf("the first observer saw %q,\nwant %q", first.seen, want)
		}
		if len(second.seen) != len(want) || second.seen[0] != "acquiring in web/acquiring" {
			t.Errorf("the second observer saw %q", second.seen)
		}
		for op, want := range map[string]string{
			"acquire": "web/acquiring/acquiring", "release": "web/acquiring/acquiring/acquired/acquired/releasing/releasing",
		} {
			if got := store.log(op)[0].ctx.Value(spanKey{}); got != want {
				t.Errorf("%s is sent in %v, want %v", op, got, want)
			}
		}
	})
}

// The context of Lock.Context and of later events has the caller's values and does not end with it.
func TestContextOfEventsOutlivesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec tracer
		var late error
		l := newLocker(t, newRemote(), padlock.Observe(&rec), padlock.Observe(padlock.ObserverFunc(
			func(ctx context.Context, e padlock.Event) {
				if e.Kind == padlock.EventRenewed {
					late = ctx.Err()
				}
			})))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), spanKey{}, "web"))
		h, err := l.Acquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-time.After(15 * time.Second)
		if span := h.Context().Value(spanKey{}); span != "web/acquiring/acquired" || h.Context().Err() != nil {
			t.Errorf("Lock.Context has %v, %v", span, h.Context().Err())
		}
		if late != nil || !slices.Contains(rec.seen, "renewed in web/acquiring/acquired") {
			t.Errorf("%v, %q", late, rec.seen)
		}
		release(t, h)
	})
}

// An observer that panics gets no more events, which is logged; the lock and the other observers go
// on.
func TestAnObserverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		var log safeBuffer
		calls := 0
		l := newLocker(t, newRemote(),
			padlock.Observe(padlock.ObserverFunc(func(context.Context, padlock.Event) { calls++; panic("metrics are on fire") })),
			padlock.Observe(padlock.ObserverFunc(rec.on)), padlock.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		h := acquire(t, l, "job")
		release(t, h)
		if calls != 1 || len(rec.all()) != 4 {
			t.Errorf("%d calls; the other observer got %v", calls, rec.kinds())
		}
		if text := log.String(); !strings.Contains(text, "metrics are on fire") || !strings.Contains(text, "observe_test.go") {
			t.Errorf("the log says %q", text)
		}
	})
}

// An observer that releases the lock on its EventLost does not hang for ever.
func TestAnObserverThatReleasesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *padlock.Lock
		done := make(chan error, 1)
		store := newRemote()
		l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
			if e.Kind == padlock.EventLost {
				done <- h.Release()
			}
		})))
		h = acquire(t, l, "job")
		store.breakJob()
		start := time.Now()
		go h.Check(t.Context())
		wantOnly(t, <-done, "release", padlock.ErrLost)
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("the release took %v", d)
		}
	})
}

// At Debug the log has acquires, renewals and releases, with their durations and outcomes.
func TestLoggerAtDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		l := newLocker(t, newRemote(), padlock.Logger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		h := acquire(t, l, "job", padlock.Shared())
		l.TryAcquire(t.Context(), "job")
		<-time.After(15 * time.Second)
		release(t, h)
		for _, want := range []string{
			`level=DEBUG msg="padlock: acquired" name=job store=memory mode=shared`, "outcome=acquired",
			`msg="padlock: refused" name=job store=memory mode=exclusive`, "outcome=held", `msg="padlock: renewed"`, "slack=",
			`msg="padlock: released"`, "outcome=released took=15s",
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log.String())
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 5 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}

func TestConversionsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := newLocker(t, newRemote(), padlock.Observe(padlock.ObserverFunc(rec.on)))
		h, other := acquire(t, l, "job", padlock.Shared()), acquire(t, l, "job", padlock.Shared())
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Promote(short); err == nil {
			t.Error("promoted although there is another reader")
		}
		if e := rec.last(padlock.EventConverted); e.Mode != padlock.ModeShared || e.Outcome != padlock.OutcomeTimeout || e.Took != time.Second {
			t.Errorf("%+v", e)
		}
		release(t, other)
		if err := h.Promote(t.Context()); err != nil {
			t.Error(err)
		}
		if e := rec.last(padlock.EventConverted); e.Mode != padlock.ModeExclusive || e.Err != nil || e.Fence != h.Fence() {
			t.Errorf("%+v", e)
		}
		release(t, h)
		if e := rec.last(padlock.EventReleased); e.Mode != padlock.ModeExclusive {
			t.Errorf("%+v", e)
		}
	})
}

// No value that a program can make panics when it is printed.
func TestNamesOfValuesOutOfRange(t *testing.T) {
	for want, got := range map[string]string{
		"Mode(7)": padlock.Mode(7).String(), "Outcome(-1)": padlock.Outcome(-1).String(), "HandOver(9)": padlock.HandOver(9).String(),
		"EventKind(99)": padlock.EventKind(99).String(), "shared": padlock.ModeShared.String(),
		"error": padlock.OutcomeError.String(), "release": padlock.HandOverByRelease.String(), "clean-up dropped": padlock.EventDropped.String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// If an observer panics in one Locker, another Locker that was made with the same option calls it
// all the same.
func TestAnObserverOfTwoLockersThatPanics(t *testing.T) {
	calls := 0
	opts := []padlock.LockerOption{
		padlock.Logger(slog.New(slog.DiscardHandler)),
		padlock.Observe(padlock.ObserverFunc(func(context.Context, padlock.Event) {
			if calls++; calls == 1 {
				panic("once")
			}
		})),
	}
	for range 2 {
		l := newLocker(t, memstore.New(), opts...)
		release(t, acquire(t, l, "job"))
	}
	if calls < 2 {
		t.Errorf("%d calls", calls)
	}
}
