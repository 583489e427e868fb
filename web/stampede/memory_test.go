package stampede_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/stampede"
)

// evict fills a Memory. In each round, 20 callers at once make the values of 20 new keys. evict
// returns how many values were not kept.
func evict(t *testing.T, invalidate bool) (notKept int64) {
	m := stampede.NewMemory(stampede.MaxValues(100))
	var refused atomic.Int64
	f := newFleetOn(t, m, 1, stampede.OnError(func(_ context.Context, key string, err error) {
		if err != stampede.ErrNotKept {
			t.Errorf("%s: %v", key, err)
		}
		refused.Add(1)
	}))
	work := &counter{takes: 10 * time.Millisecond}
	for round := range 40 {
		if invalidate && (round == 3 || round > 20) {
			if err := f.caches[0].Invalidate(t.Context(), fmt.Sprint("some other key ", round)); err != nil {
				t.Error(err)
			}
		}
		done := make(chan string)
		for i := range 20 {
			key := fmt.Sprint(round, " ", i)
			go func() {
				if _, err := stampede.Remember(t.Context(), f.caches[0], key, time.Hour, work.fn); err != nil {
					t.Error(err)
				}
				done <- key
			}()
		}
		for range 20 {
			if e, _ := m.Load(t.Context(), "stampede:test:"+<-done); e.Value == nil {
				notKept++
			}
		}
	}
	if refused.Load() != notKept {
		t.Errorf("%d values were not kept, and OnError got %d", notKept, refused.Load())
	}
	return notKept
}

// TestMemoryKeepsUnderEviction: a full Memory keeps new values, even after an Invalidate of long
// ago or many recent ones.
func TestMemoryKeepsUnderEviction(t *testing.T) {
	for _, invalidate := range []bool{false, true} {
		t.Run(fmt.Sprint("invalidate=", invalidate), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				if n := evict(t, invalidate); n > 0 {
					t.Errorf("%d of 800 values were not kept", n)
				}
			})
		})
	}
}

// TestMemoryVersions tries the calls that may come between the Load and the Store of a worker. The
// Memory has room for two values.
func TestMemoryVersions(t *testing.T) {
	ctx := context.Background()
	discard := func(m *stampede.Memory, keys ...string) {
		for _, key := range keys {
			m.Discard(ctx, key)
		}
	}
	put := func(m *stampede.Memory, keys ...string) {
		for _, key := range keys {
			e, _ := m.Load(ctx, key)
			m.Store(ctx, key, stampede.Entry{Value: []byte(key), Version: e.Version, Keep: time.Hour})
		}
	}
	for name, c := range map[string]struct {
		before, between func(m *stampede.Memory)
		kept            bool
	}{
		"nothing":                             {kept: true},
		"discarded":                           {between: func(m *stampede.Memory) { discard(m, "k") }},
		"discarded and forgotten":             {between: func(m *stampede.Memory) { discard(m, "k"); put(m, "a", "b", "c") }},
		"discarded, forgotten with others":    {between: func(m *stampede.Memory) { discard(m, "k", "a", "b", "c") }},
		"another discarded":                   {between: func(m *stampede.Memory) { discard(m, "a") }, kept: true},
		"discarded and forgotten before":      {before: func(m *stampede.Memory) { discard(m, "k"); put(m, "a", "b", "c") }, kept: true},
		"discarded before, forgotten between": {before: func(m *stampede.Memory) { discard(m, "k") }, between: func(m *stampede.Memory) { put(m, "a", "b", "c") }, kept: true},
		"discarded before and between":        {before: func(m *stampede.Memory) { discard(m, "k") }, between: func(m *stampede.Memory) { discard(m, "k"); put(m, "a", "b", "c") }},
		"made by another":                     {before: func(m *stampede.Memory) { put(m, "k") }, kept: true},
		"made by another and discarded":       {before: func(m *stampede.Memory) { put(m, "k") }, between: func(m *stampede.Memory) { discard(m, "k") }},
		"forgotten":                           {before: func(m *stampede.Memory) { put(m, "k") }, between: func(m *stampede.Memory) { put(m, "a", "b", "c") }, kept: true},
	} {
		m := stampede.NewMemory(stampede.MaxValues(2))
		if c.before != nil {
			c.before(m)
		}
		e, _ := m.Load(ctx, "k")
		if c.between != nil {
			c.between(m)
		}
		kept, err := m.Store(ctx, "k", stampede.Entry{Value: []byte("v"), Version: e.Version, Keep: time.Hour})
		if kept != c.kept || err != nil {
			t.Errorf("%s: kept %v, %v", name, kept, err)
		}
	}
}

// After a change of the lock store, new fences may be smaller. A value with a smaller fence can
// replace a value whose time is over.
func TestMemoryForgetsTheFenceOfWhatIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := stampede.NewMemory(stampede.MaxValues(2))
		store := func(fence uint64) bool {
			kept, err := m.Store(t.Context(), "k", stampede.Entry{Value: []byte("v"), Fence: fence, Keep: time.Second})
			if err != nil {
				t.Error(err)
			}
			return kept
		}
		if !store(9) || store(8) {
			t.Error("a smaller fence replaced a greater one")
		}
		<-time.After(time.Second)
		if !store(1) {
			t.Error("the fence of a value that is over keeps others out")
		}
	})
}
