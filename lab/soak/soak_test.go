package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memstore"
)

// inMemory returns a short run whose workers are goroutines instead of processes.
func inMemory(open func(driver.Store) driver.Store, d time.Duration) *Run {
	first := memstore.New()
	load := DefaultLoad()
	load.Warm, load.ToHot, load.MinHold, load.MaxHold = 64, 20, 0, 3*time.Millisecond
	return &Run{
		Name: "memory", Seed: 1, For: d, Workers: 2, Goroutines: 8, Load: load,
		Open: func(context.Context, string) (driver.Store, error) { return open(first.Open()), nil },
	}
}

// TestMemory: memory keeps its promises. If a busy machine has made little work in the first run,
// or was late with signals (I5) or hand-overs (I6), a longer one follows.
func TestMemory(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	if missing := soakMemory(t, 5*time.Second); missing != "" {
		t.Log(missing)
		if missing = soakMemory(t, time.Minute); missing != "" {
			t.Error(missing)
		}
	}
}

// soakMemory returns which work was missing in a run, or what was late.
func soakMemory(t *testing.T, length time.Duration) (missing string) {
	t.Helper()
	r := inMemory(func(s driver.Store) driver.Store { return s }, length)
	o, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := NewReport(r, o)
	var text strings.Builder
	p.Write(&text)
	t.Log(text.String())
	found, _ := Check(o)
	for _, v := range found {
		if strings.HasSuffix(v.What, " early") { // which no slow machine can cause
			t.Fatal(v)
		}
	}
	switch late := p.Violations["I5"] + p.Violations["I6"]; {
	case p.Sum() > late:
		t.Fatal("that is not what memory promises")
	case late > 0:
		return fmt.Sprintf("%d signals or hand-overs are late: that is not what memory promises", late)
	}
	leads, permits, several := map[int64]bool{}, 0, 0
	for _, e := range o.Events {
		switch {
		case e.Op == Led:
			leads[e.Hold] = true
		case e.Op == Acquired && e.Slots > 0:
			permits++
		case e.Op == Acquired && strings.Contains(e.Name, "several:m:"):
			several++
		}
	}
	if p.Grants < 500 || len(leads) < 5 || permits < 20 || several < 5 {
		return fmt.Sprintf("%d grants, %d leads, %d permits and %d sets of names: work is missing", p.Grants, len(leads), permits, several)
	}
	return ""
}

// hits counts the faults that are under way, for each of three targets.
type hits struct {
	mu       sync.Mutex
	at       [3]int
	sum      int
	most     int // the most faults at the same time
	together bool
}

func (h *hits) begin(_ *rand.Rand, on int) (func() error, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at[on]++
	h.sum++
	h.most = max(h.most, h.at[0]+h.at[1]+h.at[2])
	h.together = h.together || h.at[on] > 1
	return func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.at[on]--
		return nil
	}, nil
}

func (h *hits) enough() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sum > 50
}

// Two lanes cause faults at the same time, but never on the same target. If the run ends early, all
// faults are undone.
func TestLanes(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	h := &hits{}
	r := inMemory(func(s driver.Store) driver.Store { return s }, time.Hour)
	early, stop := context.WithCancel(t.Context())
	r.Early, r.Lanes, r.Every = early, 2, 2*time.Millisecond
	r.Faults = []Fault{{Kind: "hit", On: Targets("thing", len(h.at)), Last: 100 * time.Millisecond, Begin: func(d *rand.Rand, on int) (func() error, error) {
		undo, err := h.begin(d, on)
		if h.enough() {
			stop()
		}
		return undo, err
	}}}
	o, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := NewReport(r, o)
	if h.together || h.most != 2 || h.at != [3]int{} || p.FaultSum() != h.sum {
		t.Errorf("at once %d, on the same %v, left %v, %d of %d told", h.most, h.together, h.at, p.FaultSum(), h.sum)
	}
}

// If a fault cannot be caused, the run ends with its error.
func TestBrokenFault(t *testing.T) {
	t.Parallel()
	r := inMemory(func(s driver.Store) driver.Store { return s }, time.Hour)
	broken := errors.New("no such server")
	r.Every = time.Millisecond
	r.Faults = []Fault{{Kind: "hit", Begin: func(*rand.Rand, int) (func() error, error) { return nil, broken }}}
	if _, err := r.Do(t.Context()); !errors.Is(err, broken) {
		t.Errorf("it ended with %v", err)
	}
}
