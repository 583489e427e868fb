package stampede_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/stampede"
)

// slowLoads wraps Values. One of its Loads stops after it has read the value, until the test lets
// it return.
type slowLoads struct {
	stampede.Values
	read, goOn chan struct{}
}

func (s *slowLoads) Load(ctx context.Context, key string) (stampede.Entry, error) {
	e, err := s.Values.Load(ctx, key)
	if s.read != nil && e.Value != nil {
		read := s.read
		s.read = nil
		close(read)
		<-s.goOn
	}
	return e, err
}

// TestInvalidateReachesLocalCopies: a reader that loaded the old value before
// the Invalidate makes no local copy of it afterwards.
func TestInvalidateReachesLocalCopies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		values := &slowLoads{Values: stampede.NewMemory()}
		f := newFleetOn(t, values, 1, stampede.Local(time.Minute))
		work := &counter{}
		ask := func() string {
			v, err := stampede.Remember(t.Context(), f.caches[0], "k", time.Hour, work.fn)
			if err != nil {
				t.Error(err)
			}
			return v
		}
		ask()
		<-time.After(2 * time.Minute) // the local copy has expired, but the value has not
		read := make(chan struct{})
		values.read, values.goOn = read, make(chan struct{})
		slow := make(chan string)
		go func() { slow <- ask() }()
		<-read
		if err := f.caches[0].Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		close(values.goOn)
		if v := <-slow; v != "value 1" {
			t.Errorf("the reader from before the Invalidate got %q", v)
		}
		if v := ask(); v != "value 2" {
			t.Errorf("after the Invalidate the same process got %q", v)
		}
	})
}

// TestFullLocal: a full Local forgets the copy that was not used for the longest time. It finds
// that copy without looking at all of them.
func TestFullLocal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		loads := &countedLoads{Values: stampede.NewMemory(stampede.MaxValues(100_000))}
		f := newFleetOn(t, loads, 1, stampede.Local(time.Hour))
		ask := func(key string) {
			_, err := stampede.Remember(t.Context(), f.caches[0], key, time.Hour, func(context.Context) (string, error) {
				return "", errors.New("it was there")
			})
			if err != nil {
				t.Error(err)
			}
		}
		keep := func(key string) {
			_, err := loads.Store(t.Context(), "stampede:test:"+key, stampede.Entry{Value: []byte(key), Fresh: time.Hour, Keep: time.Hour})
			if err != nil {
				t.Error(err)
			}
		}
		hot := []string{"a", "b", "c", "d", "e", "f"}
		for _, key := range hot {
			keep(key)
		}
		for i := range 20_000 {
			keep(fmt.Sprint(i))
			if i%1000 == 0 {
				for _, key := range hot {
					ask(key)
				}
			}
			ask(fmt.Sprint(i))
		}
		before := loads.n
		for _, key := range hot {
			ask(key)
		}
		if n := loads.n - before; n > 0 {
			t.Errorf("%d of %d keys in use were forgotten", n, len(hot))
		}
		if ask("0"); loads.n == before {
			t.Error("a key that was not used is still there: Local has no bound")
		}
	})
}

// countedLoads counts the Loads. Only one goroutine at a time may use it.
type countedLoads struct {
	stampede.Values
	n int
}

func (c *countedLoads) Load(ctx context.Context, key string) (stampede.Entry, error) {
	c.n++
	return c.Values.Load(ctx, key)
}
