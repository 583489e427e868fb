package memstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// request has a lease that does not end while a busy machine delays a test.
func request(name, token string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: driver.DefaultMaxTTL}
}

// A name that is free again costs no memory, and its fences still grow.
func TestFreeNamesAreForgotten(t *testing.T) {
	s, ctx := New(), context.Background()
	first, err := s.Acquire(ctx, request("name 7", "a"))
	if err != nil {
		t.Fatal(err)
	}
	s.RaiseFence(ctx, "name 7", "a", first.Fence+1_000_000_000)
	for i := range 10_000 {
		r := request(fmt.Sprint("name ", i), "a")
		if _, err := s.Acquire(ctx, r); err != nil {
			t.Fatal(err)
		}
		if out, err := s.Release(ctx, r.Name, "a", 0); out != driver.OutcomeReleased || err != nil {
			t.Fatal(out, err)
		}
	}
	if n := len(s.entries); n != 0 {
		t.Errorf("%d names are remembered after their release", n)
	}
	g, err := s.Acquire(ctx, request("name 7", "b"))
	if err != nil || !safety.Rises(t, g.Fence, first.Fence+1_000_000_000) {
		t.Errorf("a forgotten name: %v", err)
	}
}

// Holders that let their leases run out are forgotten too, but later.
func TestLapsedNamesAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := New(), t.Context()
		for i := range 10_000 {
			r := request(fmt.Sprint("name ", i), "a")
			r.TTL = time.Second
			if _, err := s.Acquire(ctx, r); err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				<-time.After(time.Second)
			}
		}
		if n := len(s.entries); n > 1000 {
			t.Errorf("%d names are remembered, of at most 100 that were ever held at once", n)
		}
	})
}

// The cost of a hand-over does not depend on the number of waiters, and no waiter is skipped.
func TestQueueOfThousands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 5000
		s, ctx := New(), t.Context()
		if _, err := s.Acquire(ctx, request("n", "holder")); err != nil {
			t.Fatal(err)
		}
		order := make(chan int, waiters)
		for i := range waiters {
			go func() {
				token := fmt.Sprint("waiter ", i)
				g, err := s.Wait(ctx, request("n", token), true)
				if err != nil || g.TTL == 0 {
					t.Errorf("waiter %d got %+v, %v", i, g, err)
				}
				order <- i
				s.Release(ctx, "n", token, 0)
			}()
			synctest.Wait()
		}
		s.Release(ctx, "n", "holder", 0)
		for i := range waiters {
			if got := <-order; got != i {
				t.Fatalf("turn %d went to waiter %d", i, got)
			}
		}
	})
}

// A name that is handed over to a waiter that gives up in the same instant goes to the next waiter.
func TestHandOverToALeavingWaiter(t *testing.T) {
	for range 300 {
		s, ctx := New(MaxTTL(time.Hour)), context.Background()
		holder := request("n", "holder")
		holder.TTL = time.Hour // a busy machine must not end it
		s.Acquire(ctx, holder)
		leaving, cancel := context.WithCancel(ctx)
		left := make(chan error, 1)
		go func() {
			_, err := s.Wait(leaving, request("n", "leaving"), true)
			left <- err
		}()
		for st, _ := s.Inspect(ctx, "n"); st.Waiters == 0; st, _ = s.Inspect(ctx, "n") {
			runtime.Gosched()
		}
		go cancel()
		s.Release(ctx, "n", "holder", 0)
		if err := <-left; err == nil {
			s.Release(ctx, "n", "leaving", 0)
		}
		if _, err := s.Acquire(ctx, request("n", "next")); err != nil {
			t.Fatalf("after a waiter left with its turn: %v", err)
		}
	}
}

// A cool-down names the holder that left it.
func TestCoolDownNamesItsHolder(t *testing.T) {
	s, ctx := New(), context.Background()
	r := request("n", "a")
	r.Holder = driver.Holder{Host: "h", PID: 7, Label: "report"}
	s.Acquire(ctx, r)
	s.Release(ctx, "n", "a", time.Minute)
	_, err := s.Acquire(ctx, request("n", "b"))
	var held *driver.HeldError
	if !errors.As(err, &held) || len(held.Holds) != 1 || !held.Holds[0].Cooling || held.Holds[0].Holder != r.Holder {
		t.Errorf("during a cool-down: %+v", err)
	}
}

// FenceAbove for one name does not raise the fences of other names. The store forgets the raised
// fence when the clock has overtaken it.
func TestFencesAheadOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := New(), t.Context()
		take := func(name string, above uint64) uint64 {
			t.Helper()
			r := request(name, "a")
			r.FenceAbove = above
			g, err := s.Acquire(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			s.Release(ctx, name, "a", 0)
			return g.Fence
		}
		hour := uint64(time.Now().Add(time.Hour).UnixMicro())
		for i := range 1000 {
			take(fmt.Sprint("name ", i), hour)
		}
		if got := take("other", 0); got >= hour {
			t.Errorf("another name has fence %d, which is ahead of the clock", got)
		}
		if got := take("name 7", 0); got != hour+2 {
			t.Errorf("the second fence above %d is %d", hour, got)
		}
		<-time.After(2 * time.Hour)
		for i := range 5000 {
			take(fmt.Sprint("later ", i), 0)
			<-time.After(time.Second)
			r := request(fmt.Sprint("abandoned ", i), "a")
			s.Acquire(ctx, r)
		}
		if n := len(s.aheadOfClock); n > 0 {
			t.Errorf("%d fences are remembered that the clock has overtaken", n)
		}
		safety.Rises(t, take("name 7", 0), hour+2, "two hours later")
	})
}

func TestNilClock(t *testing.T) {
	s := New(WithClock(nil))
	defer s.Close()
	if _, err := s.Acquire(t.Context(), driver.Request{Name: "job", Token: driver.TokenOf("a token of this test"), TTL: 30 * time.Second}); err != nil {
		t.Error(err)
	}
}
