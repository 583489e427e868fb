package stampede_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// A pendingTest has one cache, whose function returns when the test allows it, and callers that
// come and go. The tests below try each change of state in the table of type pendingValue.
type pendingTest struct {
	*testing.T
	c     *stampede.Family
	runs  atomic.Int32
	cause atomic.Value // why a function's context ended
	goOn  chan struct{}
}

func eachPending(t *testing.T, f func(t *pendingTest), opts ...stampede.Option) {
	bubble(t, func(t *testing.T) {
		ft := &pendingTest{T: t, c: newFleet(t, 1, opts...).caches[0], goOn: make(chan struct{})}
		f(ft)
	})
}

func (t *pendingTest) fn(ctx context.Context) (string, error) {
	n := t.runs.Add(1)
	select {
	case <-t.goOn:
		return fmt.Sprint("value ", n), nil
	case <-ctx.Done():
		t.cause.Store(context.Cause(ctx).Error())
		return "", ctx.Err()
	}
}

// answer is the result of a caller's Get.
type answer struct {
	v   string
	err error
}

func (t *pendingTest) call(ctx context.Context, opts ...stampede.Option) chan answer {
	got := make(chan answer, 1)
	go func() {
		v, err := stampede.Remember(ctx, t.c, "k", time.Hour, t.fn, opts...)
		got <- answer{v, err}
	}()
	synctest.Wait()
	return got
}

func (t *pendingTest) want(got chan answer, v string, err error) {
	t.Helper()
	select {
	case a := <-got:
		if a.v != v || !errors.Is(a.err, err) {
			t.Errorf("a caller got %q, %v; want %q, %v", a.v, a.err, v, err)
		}
	case <-time.After(time.Hour):
		t.Errorf("a caller has no answer; want %q, %v", v, err)
	}
}

func (t *pendingTest) wantRuns(n int32) {
	t.Helper()
	if synctest.Wait(); t.runs.Load() != n {
		t.Errorf("%d runs, want %d", t.runs.Load(), n)
	}
}

func (t *pendingTest) short() context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestPendingOpenToDone(t *testing.T) {
	eachPending(t, func(t *pendingTest) {
		first, second := t.call(t.Context()), t.call(t.short())
		t.want(second, "", context.DeadlineExceeded) // the value is still open
		close(t.goOn)
		t.want(first, "value 1", nil)
		t.wantRuns(1)
	})
}

// A caller that left because of MaxWait gets the value when it asks again.
func TestPendingUnattendedToDone(t *testing.T) {
	eachPending(t, func(t *pendingTest) {
		t.want(t.call(t.Context(), stampede.MaxWait(time.Second)), "", stampede.ErrNotReady)
		t.wantRuns(1)
		close(t.goOn)
		synctest.Wait()
		t.want(t.call(t.Context()), "value 1", nil)
		t.wantRuns(1)
	})
}

func TestPendingUnattendedToOpen(t *testing.T) {
	eachPending(t, func(t *pendingTest) {
		t.want(t.call(t.Context(), stampede.MaxWait(time.Second)), "", stampede.ErrNotReady)
		t.want(t.call(t.short()), "", context.DeadlineExceeded)
		second := t.call(t.Context())
		close(t.goOn)
		t.want(second, "value 1", nil)
		t.wantRuns(1)
	})
}

func TestPendingUnattendedToAbandoned(t *testing.T) {
	eachPending(t, func(t *pendingTest) {
		t.want(t.call(t.Context(), stampede.MaxWait(time.Second)), "", stampede.ErrNotReady)
		if err := t.c.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if t.cause.Load() == nil {
			t.Error("a value that nobody can get is still being made")
		}
		next := t.call(t.Context())
		close(t.goOn)
		t.want(next, "value 2", nil)
	})
}

func TestPendingOpenToSuperseded(t *testing.T) {
	eachPending(t, func(t *pendingTest) {
		first := t.call(t.Context())
		t.c.Invalidate(t.Context(), "k")
		second := t.call(t.Context())
		t.wantRuns(1) // the pendingValue of the second caller waits for the lock
		t.goOn <- struct{}{}
		t.want(first, "value 1", nil)
		t.wantRuns(2)
		close(t.goOn)
		t.want(second, "value 2", nil)
		t.want(t.call(t.Context()), "value 2", nil)
	})
}

func TestPendingSupersededToAbandoned(t *testing.T) {
	for name, opts := range map[string][]stampede.Option{"by its context": nil, "by MaxWait": {stampede.MaxWait(time.Second)}} {
		t.Run(name, func(t *testing.T) {
			eachPending(t, func(t *pendingTest) {
				want := context.DeadlineExceeded
				if opts != nil {
					want = stampede.ErrNotReady
				}
				first := t.call(t.short(), opts...)
				t.c.Invalidate(t.Context(), "k")
				t.want(first, "", want)
				synctest.Wait()
				if t.cause.Load() != "stampede: nobody waits for the value any more" {
					t.Errorf("the function ended because: %v", t.cause.Load())
				}
			})
		})
	}
}

// A caller that comes after all others have left begins a new pendingValue. This one waits until
// the cancelled function has returned.
func TestPendingAbandonedToDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newFleet(t, 1).caches[0]
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		over := false
		stampede.Remember(ctx, c, "k", time.Hour, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			<-time.After(time.Second) // the function goes on for a while
			over = true
			return 1, nil
		})
		start := time.Now()
		v, err := stampede.Remember(t.Context(), c, "k", time.Hour, func(context.Context) (int, error) {
			t.Error("a value that was made though nobody waited is made again")
			return 2, nil
		})
		if v != 1 || err != nil || !over || time.Since(start) != time.Second {
			t.Errorf("the next caller got %d, %v after %v", v, err, time.Since(start))
		}
	})
}

func TestPendingAtClose(t *testing.T) {
	for name, leave := range map[string]func(t *pendingTest) chan answer{
		"open": func(t *pendingTest) chan answer { return t.call(t.Context()) },
		"superseded": func(t *pendingTest) chan answer {
			got := t.call(t.Context())
			t.c.Invalidate(t.Context(), "k")
			return got
		},
		"unattended": func(t *pendingTest) chan answer {
			t.want(t.call(t.Context(), stampede.MaxWait(time.Second)), "", stampede.ErrNotReady)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachPending(t, func(t *pendingTest) {
				got := leave(t)
				if err := t.c.Close(t.short()); err != nil {
					t.Error(err)
				}
				if got != nil {
					t.want(got, "", stampede.ErrClosed)
				}
				if t.cause.Load() == nil {
					t.Error("the function was not cancelled")
				}
				t.want(t.call(t.Context()), "", stampede.ErrClosed)
			})
		})
	}
}

// TestTimeLimit: if the function of a refresh hangs, the lock is released after TimeLimit and
// another refresh can begin. It does not matter whether the function ends with its context.
func TestTimeLimit(t *testing.T) {
	for _, ignores := range []bool{false, true} {
		t.Run(fmt.Sprint("ignores=", ignores), func(t *testing.T) {
			bubble(t, func(t *testing.T) { timeLimit(t, ignores) })
		})
	}
}

func timeLimit(t *testing.T, ignores bool) {
	var told atomic.Value
	f := newFleet(t, 2, stampede.TimeLimit(time.Minute), stampede.Stale(time.Hour), stampede.OnError(func(_ context.Context, _ string, err error) { told.Store(err) }))
	hung := make(chan struct{})
	defer close(hung)
	hang := func(ctx context.Context) (string, error) {
		if ignores {
			<-hung
		}
		<-ctx.Done()
		return "", fmt.Errorf("ended because: %w", context.Cause(ctx))
	}
	ask := func(i int, fn func(context.Context) (string, error)) string {
		v, err := stampede.Remember(t.Context(), f.caches[i], "k", time.Second, fn)
		if err != nil {
			t.Error(err)
		}
		return v
	}
	ask(0, func(context.Context) (string, error) { return "old", nil })
	<-time.After(2 * time.Second)
	if v := ask(0, hang); v != "old" {
		t.Errorf("while it is refreshed: %q", v)
	}
	<-time.After(time.Minute + 4*time.Second) // TimeLimit, Lease and ErrorTTL
	if err, _ := told.Load().(error); !errors.Is(err, stampede.ErrTimeLimit) {
		t.Errorf("OnError got %v", err)
	} else if ignored := !strings.Contains(err.Error(), "ended because: "+stampede.ErrTimeLimit.Error()); ignored != ignores {
		t.Errorf("OnError got %v, ignores: %v", err, ignores)
	}
	ask(1, func(context.Context) (string, error) { return "new", nil })
	<-time.After(time.Millisecond)
	if v := ask(0, hang); v != "new" {
		t.Errorf("after the hanging refresh: %q", v)
	}
}

// TimeLimit(0) and the greatest Duration both mean no limit.
func TestNoTimeLimit(t *testing.T) {
	for _, limit := range []time.Duration{0, 1<<63 - 1} {
		bubble(t, func(t *testing.T) {
			work := &counter{takes: 10 * time.Minute}
			if v, err := stampede.Remember(t.Context(), newFleet(t, 1).caches[0], "k", time.Hour, work.fn, stampede.TimeLimit(limit)); v != "value 1" || err != nil {
				t.Errorf("with TimeLimit(%v): %q, %v", limit, v, err)
			}
		})
	}
}

// sour is a value whose encoding goes wrong.
type sour struct {
	Number float64
	how    func()
}

func (s sour) MarshalJSON() ([]byte, error) {
	if s.how != nil {
		s.how()
	}
	return json.Marshal(s.Number)
}

func (s *sour) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &s.Number) }

// TestFunctionsThatGoWrong: whatever a function or the codec does, its callers
// get an error, the lock is released, and the process goes on.
func TestFunctionsThatGoWrong(t *testing.T) {
	var p *stampede.PanicError
	isPanic := func(err error) bool { return errors.As(err, &p) }
	isError := func(err error) bool { return err != nil }
	for name, c := range map[string]struct {
		fn   func(context.Context) (sour, error)
		want func(error) bool
	}{
		"panic":                {func(context.Context) (sour, error) { panic("boom") }, isPanic},
		"nil pointer in codec": {func(context.Context) (sour, error) { return sour{how: func() { _ = *(*int)(nil) }}, nil }, isPanic},
		"Goexit":               {func(context.Context) (sour, error) { runtime.Goexit(); return sour{}, nil }, isError},
		"Goexit in codec":      {func(context.Context) (sour, error) { return sour{how: runtime.Goexit}, nil }, isError},
		"no JSON":              {func(context.Context) (sour, error) { return sour{Number: math.Inf(1)}, nil }, isError},
		"panic with an error":  {func(context.Context) (sour, error) { panic(errDown) }, func(err error) bool { return errors.Is(err, errDown) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { goesWrong(t, c.fn, c.want) })
		})
	}
}

func goesWrong(t *testing.T, fn func(context.Context) (sour, error), want func(error) bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := newFleet(t, 2, stampede.ErrorTTL(0), stampede.Stale(time.Hour))
	fine := func(context.Context) (sour, error) { return sour{}, nil }
	if _, err := stampede.Remember(ctx, f.caches[0], "k", time.Second, fn); !want(err) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller got %v", err)
	}
	for i, c := range f.caches { // the lock is free, and the value is done
		start := time.Now()
		if _, err := stampede.Remember(ctx, c, "k", time.Second, fine); err != nil || time.Since(start) > 0 {
			t.Errorf("process %d then got %v after %v", i, err, time.Since(start))
		}
	}
	<-time.After(2 * time.Second)
	for _, fn := range []func(context.Context) (sour, error){fn, fine} { // in the background too
		if _, err := stampede.Remember(ctx, f.caches[0], "k", time.Second, fn); err != nil {
			t.Errorf("with a stale value: %v", err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// TestBackOffWhateverGoesWrong: a panic, a Goexit or a value that cannot be
// encoded begins the back-off, as an error does.
func TestBackOffWhateverGoesWrong(t *testing.T) {
	for name, fn := range map[string]func() sour{
		"panic":          func() sour { panic("boom") },
		"Goexit":         func() sour { runtime.Goexit(); return sour{} },
		"panic in codec": func() sour { return sour{how: func() { panic("boom") }} },
		"no JSON":        func() sour { return sour{Number: math.NaN()} },
	} {
		bubble(t, func(t *testing.T) {
			c, runs := newFleet(t, 1).caches[0], 0
			for range 5 {
				_, err := stampede.Remember(t.Context(), c, "k", time.Hour, func(context.Context) (sour, error) { runs++; return fn(), nil })
				if err == nil {
					t.Errorf("%s: no error", name)
				}
			}
			if runs != 1 {
				t.Errorf("%s: %d runs", name, runs)
			}
		})
	}
}

// A panic in Values does not end the process, and the lock is free afterwards.
func TestPanicInValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		values := &broken{Values: stampede.NewMemory(), panics: true}
		f := newFleetOn(t, values, 2)
		fn := func(context.Context) (string, error) { return "made", nil }
		var p *stampede.PanicError
		if _, err := stampede.Remember(t.Context(), f.caches[0], "k", time.Hour, fn); !errors.As(err, &p) {
			t.Errorf("got %v", err)
		}
		values.panics = false
		start := time.Now()
		if v, err := stampede.Remember(t.Context(), f.caches[1], "k", time.Hour, fn); v != "made" || err != nil || time.Since(start) > 0 {
			t.Errorf("then: %q, %v after %v", v, err, time.Since(start))
		}
	})
}

// A panic of OnError in the background does not end the process, and is logged.
func TestPanicInOnError(t *testing.T) {
	var log strings.Builder
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer func() {
		if !strings.Contains(log.String(), "panic=boom") {
			t.Errorf("the log has %q", log.String())
		}
	}()
	bubble(t, func(t *testing.T) {
		values := &broken{Values: stampede.NewMemory(), store: errors.New("full")}
		f := newFleetOn(t, values, 1, stampede.OnError(func(context.Context, string, error) { panic("boom") }))
		v, err := stampede.Remember(t.Context(), f.caches[0], "k", time.Minute, func(context.Context) (string, error) { return "made", nil })
		if v != "made" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

type tenantKey struct{}

// TestContextOfTheFunction: the context has the caller's values, in a refresh too. Its fence is
// that of the key's lock, even if the caller holds another lock.
func TestContextOfTheFunction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		c := stampede.NewFamily(l, stampede.NewMemory(), stampede.Stale(time.Hour), stampede.Early(1e9))
		defer l.Close(context.Background())
		defer c.Close(context.Background())
		runs := 0
		fn := func(ctx context.Context) (string, error) {
			runs++
			<-time.After(time.Millisecond)
			if tenant := ctx.Value(tenantKey{}); tenant != runs {
				t.Errorf("in run %d the tenant is %v", runs, tenant)
			}
			state, err := l.Inspect(ctx, "stampede:test:k")
			if err != nil || len(state.Holds) != 1 {
				t.Fatalf("%+v, %v", state, err)
			}
			if got, ok := padlock.FenceFrom(ctx); !ok || got != state.Fence {
				t.Errorf("in run %d the fence is %d, want %d", runs, got, state.Fence)
			}
			return "", nil
		}
		ask := func(tenant int) {
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), tenantKey{}, tenant))
			defer cancel()
			err := l.Do(ctx, "outer", func(ctx context.Context) error {
				_, err := stampede.Remember(ctx, c, "k", time.Second, fn)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		ask(1)
		ask(2) // renews the value early
		<-time.After(3 * time.Second)
		ask(3) // gets the stale value
		<-time.After(time.Millisecond)
		if synctest.Wait(); runs != 3 {
			t.Errorf("%d runs", runs)
		}
	})
}

// TestRememberInItself: a function that would wait for itself gets an error at once. A key that has
// a value can be read.
func TestRememberInItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newFleet(t, 1, stampede.Stale(time.Hour), stampede.ErrorTTL(0)).caches[0]
		var inner func(ctx context.Context, depth int) (string, error)
		inner = func(ctx context.Context, depth int) (string, error) {
			return stampede.Remember(ctx, c, fmt.Sprint("k", depth%2), time.Second, func(ctx context.Context) (string, error) { return inner(ctx, depth+1) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := inner(ctx, 0); !errors.Is(err, padlock.ErrAlreadyHeld) {
			t.Errorf("got %v", err)
		}
		var runs atomic.Int32
		var own func(ctx context.Context) (string, error)
		own = func(ctx context.Context) (string, error) {
			if runs.Add(1) == 1 {
				return "first", nil
			}
			old, err := stampede.Remember(ctx, c, "sum", time.Second, own)
			return old + " and more", err
		}
		for _, want := range []string{"first", "first", "first and more"} {
			if v, err := stampede.Remember(ctx, c, "sum", time.Second, own); v != want || err != nil {
				t.Errorf("%q, %v, want %q", v, err, want)
			}
			if want == "first" && runs.Load() == 1 {
				<-time.After(2 * time.Second)
			}
			<-time.After(time.Millisecond)
		}
	})
}
