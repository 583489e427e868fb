package stampede_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/stampede"
)

var errDown = fmt.Errorf("catalogue: %w", fs.ErrNotExist)

// TestFailureIsShared: of 12 processes that miss a key whose function fails
// after 200 ms, one calls the function, and the others get its error.
func TestFailureIsShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 12)
		work := &counter{takes: 200 * time.Millisecond}
		work.fail(errDown)
		for round := range 3 {
			start := time.Now()
			var wg sync.WaitGroup
			for i := range 48 {
				wg.Go(func() {
					_, err := stampede.Remember(t.Context(), f.caches[i%12], "k", time.Minute, work.fn)
					if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "catalogue: file does not exist") {
						t.Errorf("caller %d got %v", i, err)
					}
				})
			}
			wg.Wait()
			if n := work.runs.Load(); n != int64(round)+1 {
				t.Errorf("%d runs in round %d", n, round+1)
			}
			if d := time.Since(start); d > 210*time.Millisecond {
				t.Errorf("the slowest caller waited %v for a function that fails after 200ms", d)
			}
			<-time.After(time.Second)
		}
	})
}

// TestFailureOfAnotherProcess: a process returns the error of another process for the same key. It
// does not do so for other keys, after an Invalidate, after ErrorTTL, or if its own ErrorTTL is 0.
func TestFailureOfAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2)
		bad, good := &counter{}, &counter{}
		bad.fail(errDown)
		ask := func(i int, key string, work *counter, opts ...stampede.Option) error {
			_, err := stampede.Remember(t.Context(), f.caches[i], key, time.Minute, work.fn, opts...)
			return err
		}
		var remote *stampede.RemoteError
		if err := ask(0, "k", bad); err != errDown {
			t.Errorf("the first got %v", err)
		}
		if err := ask(1, "k", good); !errors.As(err, &remote) || remote.Text != errDown.Error() {
			t.Errorf("the other process got %v", err)
		}
		if err := ask(1, "other", good); err != nil {
			t.Errorf("another key: %v", err)
		}
		if err := f.caches[1].Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if err := ask(1, "k", good); err != nil {
			t.Errorf("after Invalidate: %v", err)
		}
		if err := ask(0, "l", bad); err != errDown {
			t.Errorf("the first got %v", err)
		}
		if err := ask(1, "l", good, stampede.ErrorTTL(0)); err != nil {
			t.Errorf("a process without ErrorTTL: %v", err)
		}
		long := strings.Repeat("m", 3000)
		if err := errors.Join(ask(0, long, bad), ask(1, long, good)); !errors.As(err, &remote) {
			t.Errorf("a long key: %v", err)
		}
		<-time.After(time.Second)
		if err := ask(1, long, good); err != nil {
			t.Errorf("after ErrorTTL: %v", err)
		}
	})
}

// TestFailureOfAnyText: errors.Is recognises the error of another process even if its text is long
// or is not UTF-8.
func TestFailureOfAnyText(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2)
		for i, text := range []string{"\xff\xfe: no such file", "x" + strings.Repeat("é", 2000)} {
			down := errors.New(text)
			work := &counter{}
			work.fail(fmt.Errorf("catalogue: %w", down))
			key := fmt.Sprint("k", i)
			for p, c := range f.caches {
				if _, err := stampede.Remember(t.Context(), c, key, time.Minute, work.fn); !errors.Is(err, down) {
					t.Errorf("process %d: errors.Is does not find %.30q in %.60q", p, text, err)
				}
			}
		}
	})
}

// TestDeadUpstream: if there is a stale value, only the callers of the first failure wait for the
// function that fails. The function is called once per ErrorTTL.
func TestDeadUpstream(t *testing.T) {
	for _, stale := range []time.Duration{0, time.Hour} {
		for _, processes := range []int{1, 4} {
			t.Run(fmt.Sprintf("stale=%v/%d", stale, processes), func(t *testing.T) {
				bubble(t, func(t *testing.T) { deadUpstream(t, stale, processes) })
			})
		}
	}
}

func deadUpstream(t *testing.T, stale time.Duration, processes int) {
	f := newFleet(t, processes, stampede.Stale(stale), stampede.StaleIfError(time.Hour))
	work := &counter{}
	ask := func(c *stampede.Family) error {
		v, err := stampede.Remember(t.Context(), c, "k", time.Second, work.fn)
		if err == nil && v != "value 1" {
			err = fmt.Errorf("got %q", v)
		}
		return err
	}
	if err := ask(f.caches[0]); err != nil {
		t.Fatal(err)
	}
	<-time.After(2 * time.Second)
	work.fail(errDown)
	work.takes = 200 * time.Millisecond
	if slowest := load(t, f, 300*time.Millisecond, 500, ask); slowest > 200*time.Millisecond {
		t.Errorf("at the first failure a caller waited %v", slowest)
	}
	if slowest := load(t, f, 10*time.Second, 500, ask); slowest > 0 {
		t.Errorf("later a caller waited %v although a stale value was there", slowest)
	}
	if n := work.runs.Load() - 1; n < 8 || n > 11 || work.top.Load() > 1 {
		t.Errorf("the failing function was called %d times in 10 s, up to %d at once", n, work.top.Load())
	}
}

// TestRecovery: after a failure of long ago, the function is called again, and callers do not get a
// stale value.
func TestRecovery(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, stampede.StaleIfError(time.Hour))
		work := &counter{}
		ask := func() string {
			v, err := stampede.Remember(t.Context(), f.caches[0], "k", time.Second, work.fn)
			if err != nil {
				t.Error(err)
			}
			return v
		}
		ask()
		work.fail(errDown)
		<-time.After(2 * time.Second)
		if v := ask(); v != "value 1" {
			t.Errorf("while it fails: %q", v)
		}
		work.fail(nil)
		<-time.After(2 * time.Second)
		ask() // served the stale value, and begins the next try in the background
		<-time.After(time.Millisecond)
		if v := ask(); v != "value 3" {
			t.Errorf("after the next try: %q", v)
		}
		work.fail(errDown)
		<-time.After(2 * time.Second)
		ask()
		work.fail(nil)
		<-time.After(time.Minute)
		if v := ask(); v != "value 5" {
			t.Errorf("a minute after the failure: %q", v)
		}
		<-time.After(2 * time.Second)
		if v := ask(); v != "value 6" {
			t.Errorf("after a success: %q", v)
		}
	})
}

// broken wraps Values. Some of its operations fail.
type broken struct {
	stampede.Values
	load, store error
	panics      bool // Store does
}

func (b *broken) Load(ctx context.Context, key string) (stampede.Entry, error) {
	if b.load != nil {
		return stampede.Entry{}, b.load
	}
	return b.Values.Load(ctx, key)
}

func (b *broken) Store(ctx context.Context, key string, e stampede.Entry) (bool, error) {
	if b.panics {
		panic("boom")
	}
	if b.store != nil {
		return false, b.store
	}
	return b.Values.Store(ctx, key, e)
}

// TestValuesDown: if Values fails, the rules for the function still hold.
func TestValuesDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		values := &broken{Values: stampede.NewMemory(), load: errors.New("no values"), store: errors.New("no values")}
		f := newFleetOn(t, values, 1)
		c, work := f.caches[0], &counter{takes: time.Millisecond}
		work.fail(errDown)
		for range 20 {
			if _, err := stampede.Remember(t.Context(), c, "k", time.Minute, work.fn); !errors.Is(err, errDown) {
				t.Error(err)
			}
		}
		if n := work.runs.Load(); n != 1 {
			t.Errorf("a failing function was called %d times", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		slow := &counter{takes: time.Hour}
		stampede.Remember(ctx, c, "slow", time.Minute, slow.fn)
		<-time.After(time.Second)
		if n := slow.now.Load(); n != 0 {
			t.Error("nobody waits, and the function still runs")
		}
		go stampede.Remember(t.Context(), c, "slower", time.Minute, slow.fn)
		<-time.After(time.Second)
		soon, cancelSoon := context.WithTimeout(t.Context(), time.Second)
		defer cancelSoon()
		if err := c.Close(soon); err != nil || slow.now.Load() != 0 {
			t.Errorf("Close: %v, %d functions run", err, slow.now.Load())
		}
	})
}
