package facetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Invalid parameters are reported with their names before the store is asked.
func TestParametersOutOfRange(t *testing.T) {
	tests := []struct {
		name  string
		opts  []padlock.Option
		param string
	}{
		{"", nil, "name"},
		{strings.Repeat("x", driver.MaxName+1), nil, "name"},
		{"job", []padlock.Option{padlock.TTL(0)}, "TTL"},
		{"job", []padlock.Option{padlock.TTL(-time.Second)}, "TTL"},
		{"job", []padlock.Option{padlock.TTL(driver.MinTTL - 1)}, "TTL"},
		{"job", []padlock.Option{padlock.TTL(driver.MaxTTL + 1)}, "TTL"},
		{"job", []padlock.Option{padlock.Wait(-1)}, "Wait"},
		{"job", []padlock.Option{padlock.HoldAtMost(-1)}, "HoldAtMost"},
		{"job", []padlock.Option{padlock.HoldAtLeast(-1)}, "HoldAtLeast"},
		{"job", []padlock.Option{padlock.HoldAtLeast(driver.MaxTTL + 1)}, "HoldAtLeast"},
		{"job", []padlock.Option{padlock.CoolDown(-1)}, "CoolDown"},
		{"job", []padlock.Option{padlock.CoolDown(driver.MaxTTL + 1)}, "CoolDown"},
		{"job", []padlock.Option{padlock.Label(strings.Repeat("x", driver.MaxLabel+1))}, "label has 1025 bytes, at most 1024 are allowed"},
		{"job", []padlock.Option{padlock.FenceAbove(1 << 53)}, "fence"},
	}
	store := newRemote()
	l := newLocker(t, store)
	for _, test := range tests {
		_, err := l.Acquire(t.Context(), test.name, test.opts...)
		wantOnly(t, err, "acquire", padlock.ErrInvalid)
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(test.param)) {
			t.Errorf("%q does not name %s", err, test.param)
		}
		if len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
	_, err := l.Inspect(t.Context(), "")
	wantOnly(t, err, "inspect", padlock.ErrInvalid)
	if n := len(store.log("acquire")); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A label that is too long for the store is refused before any request.
func TestLabelsOfAStore(t *testing.T) {
	store := newRemote()
	store.guarantees.MaxLabel = 256
	l := newLocker(t, store)
	_, err := l.Acquire(t.Context(), "job", padlock.Label(strings.Repeat("x", 257)))
	wantOnly(t, err, "acquire", padlock.ErrInvalid)
	if !strings.Contains(err.Error(), "label has 257 bytes, at most 256 are allowed in a store of the kind "+store.guarantees.Store) || len(store.log()) > 0 {
		t.Errorf("%v, after %d requests", err, len(store.log()))
	}
	release(t, acquire(t, l, "job", padlock.Label(strings.Repeat("x", 256))))
}

// A message has the number that the program gave.
func TestMessagesOfParameters(t *testing.T) {
	l := newLocker(t, memstore.New())
	for want, o := range map[string]padlock.Option{
		"Slots is less than 1; 1 to 1024 are allowed": padlock.Slots(0),
		"HoldAtMost is -1ns, 0 or more is allowed":    padlock.HoldAtMost(-1),
		"Wait is negative, 0 or more is allowed":      padlock.Wait(-time.Second),
	} {
		_, err := l.Acquire(t.Context(), "job", o)
		wantOnly(t, err, "acquire", padlock.ErrInvalid)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q, want %q in it", err, want)
		}
	}
}

// An option that is wrong for every call is found where the Locker is made.
func TestNewRefusesWrongOptions(t *testing.T) {
	store := memstore.New(memstore.MaxTTL(driver.DefaultMaxTTL))
	for want, o := range map[string]padlock.LockerOption{
		"MaxWaiters is -1, 0 or more is allowed":   padlock.MaxWaiters(-1),
		"TTL is 1h0m0s, allowed are 100ms to 58s":  padlock.TTL(time.Hour),
		"Wait is negative, 0 or more is allowed":   padlock.Wait(-1),
		"HoldAtMost is -1ns, 0 or more is allowed": padlock.HoldAtMost(-1),
		"CoolDown is -1ns":                         padlock.CoolDown(-1),
		"holder label has 2000 bytes":              padlock.Label(strings.Repeat("x", 2000)),
		"Slots is less than 1":                     padlock.Slots(-1),
		"Token is given to New":                    padlock.Token(myToken),
	} {
		if text := panicOf(func() { padlock.New(store, o) }); !strings.HasPrefix(text, "padlock: New: ") || !strings.Contains(text, want) {
			t.Errorf("%q, want %q in it", text, want)
		}
	}
}

func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return
}

// A mistake that only the program can have, and no setting, panics with a text, before anything is
// changed.
func TestProgrammingErrors(t *testing.T) {
	l := newLocker(t, memstore.New())
	k := acquire(t, l, "job")
	none := context.Context(nil)
	const made, context_, function = "padlock: New has not made this Locker", "padlock: the context is nil", "padlock: the function is nil"
	calls := map[string]func(l *padlock.Locker, ctx context.Context){
		"Acquire":    func(l *padlock.Locker, ctx context.Context) { l.Acquire(ctx, "x") },
		"TryAcquire": func(l *padlock.Locker, ctx context.Context) { l.TryAcquire(ctx, "x") },
		"Adopt":      func(l *padlock.Locker, ctx context.Context) { l.Adopt(ctx, padlock.Key{}) },
		"AcquireAll": func(l *padlock.Locker, ctx context.Context) { l.AcquireAll(ctx, []string{"x"}) },
		"Do": func(l *padlock.Locker, ctx context.Context) {
			l.Do(ctx, "x", func(context.Context) error { return nil })
		},
		"ExtendKey":  func(l *padlock.Locker, ctx context.Context) { l.ExtendKey(ctx, padlock.Key{}, time.Second) },
		"ReleaseKey": func(l *padlock.Locker, ctx context.Context) { l.ReleaseKey(ctx, padlock.Key{}) },
		"Inspect":    func(l *padlock.Locker, ctx context.Context) { l.Inspect(ctx, "x") },
		"List":       func(l *padlock.Locker, ctx context.Context) { l.List(ctx, "x") },
		"Break":      func(l *padlock.Locker, ctx context.Context) { l.Break(ctx, "x", 0) },
		"Status":     func(l *padlock.Locker, ctx context.Context) { l.Status(ctx) },
		"Close":      func(l *padlock.Locker, ctx context.Context) { l.Close(ctx) },
	}
	for what, call := range calls {
		if got := panicOf(func() { call(nil, t.Context()) }); got != made {
			t.Errorf("%s of a nil Locker: %s", what, got)
		}
		if got := panicOf(func() { call(new(padlock.Locker), t.Context()) }); got != made {
			t.Errorf("%s of a zero Locker: %s", what, got)
		}
		if got := panicOf(func() { call(l, none) }); got != context_ {
			t.Errorf("%s without a context: %s", what, got)
		}
	}
	for what, call := range map[string]func(){
		"Check": func() { k.Check(none) }, "Extend": func() { k.Extend(none, 0) }, "Promote": func() { k.Promote(none) },
		"Demote": func() { k.Demote(none) }, "Export": func() { k.Export(none) }, "Join": func() { k.Join(none) },
	} {
		if got := panicOf(call); got != context_ {
			t.Errorf("%s without a context: %s", what, got)
		}
	}
	for what, call := range map[string]func(){
		"Do": func() { l.Do(t.Context(), "x", nil) }, "TryDo": func() { l.TryDo(t.Context(), "x", nil) },
		"DoAll": func() { l.DoAll(t.Context(), []string{"x"}, nil) },
	} {
		if got := panicOf(call); got != function {
			t.Errorf("%s without a function: %s", what, got)
		}
	}
	if err := k.Check(t.Context()); err != nil {
		t.Error(err)
	}
	release(t, acquire(t, l, "x", padlock.Wait(0)), nil)
}

// A nil option does nothing: an option that an if chooses is easily nil.
func TestNilOptions(t *testing.T) {
	l := newLocker(t, memstore.New(), nil, padlock.TTL(45*time.Second))
	release(t, acquire(t, l, "job", nil, padlock.Label("x")), nil)
	if err := l.Do(t.Context(), "job", func(context.Context) error { return nil }, nil); err != nil {
		t.Error(err)
	}
	all, err := l.AcquireAll(t.Context(), []string{"a", "b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Release(nil); err != nil {
		t.Error(err)
	}
}

func TestTTLRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		for _, ttl := range []time.Duration{driver.MinTTL, driver.MaxTTL} {
			release(t, acquire(t, l, "job", padlock.TTL(ttl), padlock.HoldAtLeast(driver.MinTTL)))
			<-time.After(time.Second)
		}
		release(t, acquire(t, l, "a", padlock.HoldAtLeast(driver.MaxTTL)))
		release(t, acquire(t, l, "b", padlock.Label(strings.Repeat("x", driver.MaxLabel)), padlock.CoolDown(driver.MaxTTL)))
	})
}

// The store's own range counts too, and shapes the default.
func TestStoresNarrowerRange(t *testing.T) {
	for _, test := range []struct{ low, high, want time.Duration }{
		{2 * time.Second, time.Minute, padlock.DefaultTTL},
		{45 * time.Second, time.Minute, 45 * time.Second},
		{2 * time.Second, 10 * time.Second, 10 * time.Second},
	} {
		store := newRemote()
		store.guarantees.MinTTL, store.guarantees.MaxTTL = test.low, test.high
		l := newLocker(t, store)
		h := acquire(t, l, "job")
		if got := store.log("acquire")[0].ttl; got != test.want {
			t.Errorf("range %v to %v: default TTL %v, want %v", test.low, test.high, got, test.want)
		}
		for _, ttl := range []time.Duration{test.low - 1, test.high + 1} {
			_, err := l.TryAcquire(t.Context(), "another", padlock.TTL(ttl))
			wantOnly(t, err, "acquire", padlock.ErrInvalid)
			wantOnly(t, h.Extend(t.Context(), ttl), "extend", padlock.ErrInvalid)
		}
		_, err := l.TryAcquire(t.Context(), "another", padlock.HoldAtLeast(test.low-1))
		wantOnly(t, err, "acquire", padlock.ErrInvalid)
		release(t, acquire(t, l, "another", padlock.HoldAtLeast(test.high+1))) // a cool-down may be longer than a lease
		if calls := store.log("acquire"); calls[len(calls)-1].ttl != test.high {
			t.Errorf("range %v to %v: the first lease is %v", test.low, test.high, calls[len(calls)-1].ttl)
		}
		release(t, h)
	}
}

// Options given to New are the defaults of every call, and a call overrides them.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store, padlock.TTL(time.Minute), padlock.Shared(), padlock.CoolDown(time.Second), padlock.NoRenewal(),
			padlock.Label("default"))
		h := acquire(t, l, "job")
		state, err := l.Inspect(t.Context(), "job")
		if err != nil || len(state.Holds) != 1 || state.Holds[0].Label != "default" {
			t.Errorf("%+v, %v", state, err)
		}
		if c := store.log("acquire")[0]; c.ttl != time.Minute || !c.shared {
			t.Errorf("asked for %+v", c)
		}
		release(t, h)
		release(t, acquire(t, l, "other", padlock.TTL(time.Hour), padlock.CoolDown(0)))
		calls := store.log("release")
		if calls[0].keep != time.Second || calls[1].keep != 0 {
			t.Errorf("cool-downs %v and %v", calls[0].keep, calls[1].keep)
		}
		if c := store.log("acquire")[1]; c.ttl != time.Hour {
			t.Errorf("asked for %+v", c)
		}
	})
}

// The error of a store without shared mode reaches the caller: the Locker does not take an
// exclusive lock instead, and does not wait.
func TestSharedThatAStoreDoesNotHave(t *testing.T) {
	store := newRemote()
	store.request("acquire", fails(errors.ErrUnsupported))
	l := newLocker(t, store)
	_, err := l.Acquire(t.Context(), "job", padlock.Shared())
	wantOnly(t, err, "acquire", errors.ErrUnsupported)
	if n := len(store.log("acquire")); n != 1 || !store.log("acquire")[0].shared {
		t.Errorf("%d requests", n)
	}
}

func TestFenceAbove(t *testing.T) {
	l := newLocker(t, memstore.New())
	const seen uint64 = 1 << 52
	h := acquire(t, l, "job", padlock.FenceAbove(seen))
	safety.Rises(t, h.Fence(), seen)
	release(t, h)
	next := acquire(t, l, "job")
	safety.Rises(t, next.Fence(), h.Fence())
	release(t, next)
}

// SkipIfOutlived decides by the planned end of the holder whether the caller waits.
func TestSkipIfOutlived(t *testing.T) {
	renews := []padlock.Option(nil)
	tests := map[string]struct {
		holder []padlock.Option
		wait   time.Duration
		skips  bool
	}{
		"a holder without a plan":              {renews, 10 * time.Minute, true},
		"no deadline":                          {renews, 0, false},
		"a plan that ends in time":             {[]padlock.Option{padlock.HoldAtMost(time.Minute)}, 2 * time.Minute, false},
		"a plan that ends too late":            {[]padlock.Option{padlock.HoldAtMost(time.Minute)}, 30 * time.Second, true},
		"no renewal":                           {[]padlock.Option{padlock.NoRenewal(), padlock.TTL(time.Minute)}, 2 * time.Minute, true},
		"held at least for longer":             {[]padlock.Option{padlock.HoldAtMost(time.Minute), padlock.HoldAtLeast(time.Hour)}, 2 * time.Minute, true},
		"no renewal, with a plan":              {[]padlock.Option{padlock.NoRenewal(), padlock.TTL(time.Minute), padlock.HoldAtMost(time.Hour)}, 2 * time.Minute, true},
		"no renewal, a plan that ends in time": {[]padlock.Option{padlock.NoRenewal(), padlock.HoldAtMost(time.Minute)}, 2 * time.Minute, false},
		"no renewal, held at least":            {[]padlock.Option{padlock.NoRenewal(), padlock.HoldAtLeast(time.Minute)}, 2 * time.Minute, true},
	}
	for name, test := range tests {
		for _, byCtx := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLocker(t, memstore.New(memstore.MaxTTL(time.Hour)))
					h := acquire(t, l, "job", test.holder...)
					ctx, cancel := context.WithCancel(t.Context())
					opts := []padlock.Option{padlock.SkipIfOutlived()}
					if byCtx && test.wait > 0 {
						ctx, cancel = context.WithTimeout(ctx, test.wait)
					} else if test.wait > 0 {
						opts = append(opts, padlock.Wait(test.wait))
					}
					start := time.Now()
					time.AfterFunc(20*time.Second, func() { h.Release(); cancel() })
					_, err := l.Acquire(ctx, "job", opts...)
					waited := time.Since(start) > 0
					if waited == test.skips {
						t.Errorf("waited %v: %v", time.Since(start), err)
					}
					if test.skips {
						wantOnly(t, err, "acquire", padlock.ErrHeld)
					}
				})
			})
		}
	}
}

// Of two bounds the first counts.
func TestSkipIfOutlivedWithBothBounds(t *testing.T) {
	for _, d := range [][2]time.Duration{{time.Hour, 30 * time.Second}, {30 * time.Second, time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLocker(t, memstore.New())
			defer acquire(t, l, "job", padlock.HoldAtMost(time.Minute)).Release()
			ctx, cancel := context.WithTimeout(t.Context(), d[0])
			defer cancel()
			start := time.Now()
			_, err := l.Acquire(ctx, "job", padlock.SkipIfOutlived(), padlock.Wait(d[1]))
			wantOnly(t, err, "acquire", padlock.ErrHeld)
			if time.Since(start) != 0 {
				t.Errorf("context %v, Wait %v: queued for %v", d[0], d[1], time.Since(start))
			}
		})
	}
}

// The end of a cool-down is known, so a caller waits for a short one.
func TestSkipIfOutlivedByACoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		release(t, acquire(t, l, "job"), padlock.CoolDown(10*time.Second))
		_, err := l.Acquire(t.Context(), "job", padlock.SkipIfOutlived(), padlock.Wait(5*time.Second))
		wantOnly(t, err, "acquire", padlock.ErrHeld)
		start := time.Now()
		release(t, acquire(t, l, "job", padlock.SkipIfOutlived(), padlock.Wait(time.Minute)))
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("waited for %v", d)
		}
	})
}

// A holder that comes while the caller waits counts too.
func TestSkipIfOutlivedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l, other := newLocker(t, bare{store}), newLocker(t, store.Store.Open())
		h := acquire(t, other, "job", padlock.HoldAtMost(10*time.Second))
		go func() {
			<-time.After(5 * time.Second)
			release(t, h)
			acquire(t, other, "job") // without a plan
		}()
		start := time.Now()
		_, err := l.Acquire(t.Context(), "job", padlock.SkipIfOutlived(), padlock.Wait(time.Hour))
		wantOnly(t, err, "acquire", padlock.ErrHeld)
		if d := time.Since(start); d > 7*time.Second {
			t.Errorf("waited for %v", d)
		}
	})
}
