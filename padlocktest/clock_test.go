package padlocktest_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/padlocktest"
	"github.com/padlock-go/padlock/stores/memstore"
)

var _ driver.Clock = (*padlocktest.Clock)(nil)

func TestTimersFireInTheirOrderAndAtTheirTime(t *testing.T) {
	c := padlocktest.NewClock()
	start := c.Now()
	var at []time.Duration
	note := func() { at = append(at, c.Now().Sub(start)) }
	c.AfterFunc(3*time.Second, note)
	c.AfterFunc(time.Second, func() { note(); c.AfterFunc(time.Second, note) })
	stop := c.AfterFunc(1500*time.Millisecond, note)
	c.AfterFunc(10*time.Second, note)
	if !stop() || stop() {
		t.Error("stop is to report once that it prevented the call")
	}
	c.Advance(5 * time.Second)
	if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("fired at %v, want %v", at, want)
	}
	if d := c.Now().Sub(start); d != 5*time.Second {
		t.Errorf("advanced by %v", d)
	}
	c.Suspend(time.Hour)
	if d := c.Now().Sub(start); d != time.Hour+5*time.Second || len(at) != 3 {
		t.Errorf("suspended until %v, fired at %v", d, at)
	}
	c.Advance(5 * time.Second)
	if len(at) != 4 || at[3] != time.Hour+10*time.Second {
		t.Errorf("after a suspend fired at %v", at)
	}
}

func TestATimeThatIsOverFiresAtOnce(t *testing.T) {
	done := make(chan struct{})
	stop := padlocktest.NewClock().AfterFunc(0, func() { close(done) })
	<-done
	if stop() {
		t.Error("stop reports that it prevented a call that was made")
	}
}

// In a bubble, Advance waits at each step until every goroutine is blocked. So no renewal is
// missed, even in hours.
func TestAdvanceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := padlocktest.NewClock()
		l := padlock.New(memstore.New(memstore.WithClock(c)), padlock.WithClock(c))
		h, err := l.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		c.Advance(5 * time.Hour)
		if h.Remaining() == 0 {
			t.Error("the lock was not renewed in time")
		}
		if n := l.Stats().Renewals; n < 1500 || n > 2100 {
			t.Errorf("%d renewals in 5 hours", n)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Outside a bubble, the test waits for the effect of Advance: here the end of the lock's context.
func TestAdvanceOutsideOfABubble(t *testing.T) {
	c := padlocktest.NewClock()
	l := padlock.New(memstore.New(memstore.WithClock(c)), padlock.WithClock(c))
	h, err := l.Acquire(t.Context(), "job", padlock.HoldAtMost(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	ctx := h.Context()
	c.Advance(time.Minute)
	<-ctx.Done()
	h.Release()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
