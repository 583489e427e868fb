package facetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// recorder keeps what happened.
type recorder struct {
	mu     sync.Mutex
	events []padlock.Event
}

func (r *recorder) on(_ context.Context, e padlock.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) all() []padlock.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *recorder) kinds() []padlock.EventKind {
	var kinds []padlock.EventKind
	for _, e := range r.all() {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (r *recorder) last(kind padlock.EventKind) padlock.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.events) {
		if e.Kind == kind {
			return e
		}
	}
	return padlock.Event{Name: "there was none"}
}

func TestEventsOfALock(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		var rec recorder
		l := newLocker(t, s, padlock.Observe(padlock.ObserverFunc(rec.on)))
		h := acquire(t, l, "job", padlock.Shared())
		l.TryAcquire(t.Context(), "job")
		<-time.After(15 * time.Second)
		release(t, h)
		want := []padlock.EventKind{
			padlock.EventAcquiring, padlock.EventAcquired,
			padlock.EventAcquiring, padlock.EventContended, padlock.EventRefused,
			padlock.EventRenewed, padlock.EventReleasing, padlock.EventReleased,
		}
		if got := rec.kinds(); !slices.Equal(got, want) {
			t.Fatalf("events %v, want %v", got, want)
		}
		for _, kind := range []padlock.EventKind{padlock.EventAcquired, padlock.EventRenewed, padlock.EventReleased} {
			if e := rec.last(kind); e.Name != "job" || e.Mode != padlock.ModeShared || e.Fence != h.Fence() || e.Err != nil {
				t.Errorf("%v: %+v", kind, e)
			}
		}
		if e := rec.last(padlock.EventReleased); e.Took != 15*time.Second {
			t.Errorf("held for 15s, and the event says %v", e.Took)
		}
		for _, kind := range []padlock.EventKind{padlock.EventContended, padlock.EventRefused} {
			if e := rec.last(kind); e.Name != "job" || !errors.Is(e.Err, padlock.ErrHeld) {
				t.Errorf("%v: %+v", kind, e)
			}
		}
	})
}

func TestEventTellsHowLongAWaitTook(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		var rec recorder
		l := newLocker(t, s, padlock.Observe(padlock.ObserverFunc(rec.on)))
		h := acquire(t, l, "job")
		time.AfterFunc(7*time.Second, func() { h.Release() })
		release(t, acquire(t, l, "job"))
		if took := rec.last(padlock.EventAcquired).Took; took < 7*time.Second || took > 8100*time.Millisecond {
			t.Errorf("the wait took 7s, and the event says %v", took)
		}
	})
}

func TestEventsOfTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		store := newRemote()
		l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(rec.on)))
		h := acquire(t, l, "job")
		store.request("extend", lost)
		<-h.Context().Done()
		synctest.Wait() // the events come after the end of the context
		if e := rec.last(padlock.EventRenewFailed); e.Name != "job" || !errors.Is(e.Err, errReset) {
			t.Errorf("%+v", e)
		}
		if e := rec.last(padlock.EventLost); e.Name != "job" || e.Fence != h.Fence() || !errors.Is(e.Err, padlock.ErrLost) {
			t.Errorf("%+v", e)
		}
		h.Release()
		if e := rec.last(padlock.EventReleased); !errors.Is(e.Err, padlock.ErrExpired) {
			t.Errorf("%+v", e)
		}
		store.reply("acquire", lost)
		l.TryAcquire(t.Context(), "uncertain")
		<-time.After(time.Second)
		for _, kind := range []padlock.EventKind{padlock.EventUncertain, padlock.EventCleaned} {
			if e := rec.last(kind); e.Name != "uncertain" {
				t.Errorf("%v: %+v", kind, e)
			}
		}
		store.request("release", fails(driver.ErrUnavailable))
		l.TryAcquire(t.Context(), "dropped", padlock.TTL(time.Second))
		<-time.After(5 * time.Second)
		if e := rec.last(padlock.EventDropped); e.Name != "dropped" || !errors.Is(e.Err, driver.ErrUnavailable) {
			t.Errorf("%+v", e)
		}
	})
}

// If the options of a lock ask for its end, that end is no loss.
func TestEventEnded(t *testing.T) {
	for what, c := range map[string]struct {
		opts []padlock.Option
		take func(*remote)
		kind padlock.EventKind
		err  error
	}{
		"HoldAtMost":             {[]padlock.Option{padlock.HoldAtMost(10 * time.Second)}, nil, padlock.EventEnded, padlock.ErrMaxHold},
		"NoRenewal":              {[]padlock.Option{padlock.NoRenewal(), padlock.TTL(10 * time.Second)}, nil, padlock.EventEnded, padlock.ErrLost},
		"broken, and NoRenewal":  {[]padlock.Option{padlock.NoRenewal()}, (*remote).breakJob, padlock.EventLost, padlock.ErrLost},
		"broken, and HoldAtMost": {[]padlock.Option{padlock.HoldAtMost(time.Hour)}, (*remote).breakJob, padlock.EventLost, padlock.ErrLost},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec recorder
				var log bytes.Buffer
				store := newRemote()
				l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(rec.on)), padlock.Logger(slog.New(slog.NewTextHandler(&log, nil))))
				h := acquire(t, l, "job", c.opts...)
				if c.take != nil {
					c.take(store)
					h.Check(t.Context())
				}
				<-h.Context().Done()
				synctest.Wait()
				if e := rec.last(c.kind); e.Name != "job" || !errors.Is(e.Err, c.err) {
					t.Errorf("%v, %+v", rec.kinds(), e)
				}
				lost := c.kind == padlock.EventLost
				if (l.Stats().Lost == 1) != lost || strings.Contains(log.String(), "ERROR") != lost {
					t.Errorf("%+v\n%s", l.Stats(), log.String())
				}
				h.Release()
			})
		})
	}
}

func (r *remote) breakJob() {
	s, err := r.Store.Inspect(context.Background(), "job")
	if err == nil {
		_, err = r.Store.Break(context.Background(), "job", s.Fence)
	}
	if err != nil {
		panic(err)
	}
}

func TestEventKindOutOfRange(t *testing.T) {
	for kind, want := range map[padlock.EventKind]string{99: "EventKind(99)", -1: "EventKind(-1)", padlock.EventEnded: "ended"} {
		if got := kind.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		h := acquire(t, l, "a")
		acquire(t, l, "b")
		go func() { release(t, acquire(t, l, "a")) }()
		l.TryAcquire(t.Context(), "a")
		synctest.Wait()
		want := padlock.Stats{Held: 2, Waiting: 1, Acquired: 2, Contended: 2, Refused: 1}
		if got := l.Stats(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		release(t, h)
		synctest.Wait()
		want = padlock.Stats{Held: 1, Acquired: 3, Contended: 2, Refused: 1}
		if got := l.Stats(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// The log has the events that an operator must know about, and no everyday events.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safeBuffer
		store := newRemote()
		l := newLocker(t, store, padlock.Logger(slog.New(slog.NewTextHandler(&out, nil))))
		h := acquire(t, l, "job")
		l.TryAcquire(t.Context(), "job")
		<-time.After(time.Minute)
		release(t, h)
		if out.String() != "" {
			t.Errorf("everyday events are logged: %s", out.String())
		}
		h = acquire(t, l, "job")
		store.request("extend", lost)
		<-h.Context().Done()
		h.Release()
		synctest.Wait()
		for _, want := range []string{`level=WARN msg="padlock: renewal failed" name=job`, "connection reset by peer", `level=ERROR msg="padlock: lost" name=job`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, out.String())
			}
		}
	})
}

// safeBuffer is a bytes.Buffer for many goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestShowNames: names that hold secrets are shortened in the log and in events, those of refused
// calls included.
func TestShowNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs safeBuffer
		rec := &recorder{}
		store := newRemote()
		l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(rec.on)), padlock.Logger(slog.New(slog.NewTextHandler(&logs, nil))))
		l.ShowNames(func(name string) string { return strings.Replace(name, "hunter2", "…", 1) })
		l.ShowNames(func(name string) string { return "shown " + name })
		h := acquire(t, l, "job:hunter2")
		l.TryAcquire(t.Context(), "job:hunter2")
		store.request("extend", fails(driver.ErrLost))
		h.Check(t.Context())
		h.Release()
		synctest.Wait()
		for _, e := range rec.all() {
			if e.Name != "shown job:…" || strings.Contains(fmt.Sprint(e.Err), "hunter2") {
				t.Errorf("%v of %q: %v", e.Kind, e.Name, e.Err)
			}
		}
		if n := len(rec.all()); n < 4 {
			t.Errorf("%d events", n)
		}
		if text := logs.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "shown job:…") {
			t.Errorf("the log says %s", text)
		}
	})
}

// The token suffices to release a lock, so it appears nowhere: not in errors, events and logs, and
// not in the output of fmt and slog for a Lock or a Key.
func TestSecretsShowNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safeBuffer
		var rec recorder
		store := newRemote()
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			log := slog.New(handler)
			l := padlock.New(store, padlock.KeepStoreOpen(), padlock.Observe(padlock.ObserverFunc(rec.on)), padlock.Logger(log))
			t.Cleanup(func() { l.Close(context.Background()) })
			h := acquire(t, l, "job", padlock.TTL(time.Second))
			key, err := h.Export(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range []any{h, key, &key, struct{ K padlock.Key }{key}, []*padlock.Lock{h}} {
				for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%T"} {
					fmt.Fprintf(&out, verb+"\n", v)
				}
				log.Info("x", "v", v)
			}
			json.NewEncoder(&out).Encode([]any{h})
			_, err = l.TryAcquire(t.Context(), "job")
			fmt.Fprintf(&out, "%v %+v %#v", err, err, errors.Unwrap(err))
			store.request("extend", lost)
			<-h.Context().Done()
			fmt.Fprintln(&out, context.Cause(h.Context()), h.Context(), h.Check(t.Context()), h.Release(), l.Stats(), l.Guarantees())
			store.heal()
		}
		synctest.Wait()
		for _, e := range rec.events {
			fmt.Fprintf(&out, "%+v %#v\n", e, e)
		}
		tokens := store.log("acquire")
		if len(tokens) != 4 || len(out.String()) < 1000 {
			t.Fatalf("%d tokens, %d bytes: the test is worth nothing", len(tokens), len(out.String()))
		}
		for _, c := range tokens {
			for _, form := range []string{c.token, fmt.Sprintf("%x", c.token), fmt.Sprintf("%X", c.token), c.token[:20]} {
				if i := strings.Index(out.String(), form); i >= 0 {
					t.Errorf("a token shows: …%.200s", out.String()[max(0, i-100):])
				}
			}
		}
	})
}

// Tokens are 32 random bytes each, none twice.
func TestTokens(t *testing.T) {
	store := newRemote()
	l := newLocker(t, store)
	for range 3000 {
		acquire(t, l, "job").Release()
	}
	seen := map[string]bool{}
	for _, c := range store.log("acquire") {
		if len(c.token) != 44 || seen[c.token] {
			t.Fatalf("%q", c.token)
		}
		seen[c.token] = true
	}
}

// If waiters give up behind a long wait, the Locker does not keep their places.
func TestALongWaitKeepsNothingOfOthers(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s, padlock.TTL(24*time.Hour))
		h := acquire(t, l, "job")
		done := make(chan struct{})
		go func() { release(t, acquire(t, l, "job")); close(done) }()
		synctest.Wait()
		before := heap()
		for range 100 {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() { l.Acquire(context.Background(), "job", padlock.Wait(time.Millisecond)) })
			}
			wg.Wait()
		}
		if grown := heap() - before; grown > 300<<10 {
			t.Errorf("10,000 waits that are over keep %d KiB", grown>>10)
		}
		release(t, h)
		<-done
	})
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
