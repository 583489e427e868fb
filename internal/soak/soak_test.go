package soak

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/memstore"
)

// inMemory is a short run with goroutines for processes.
func inMemory(open func(driver.Store) driver.Store, d time.Duration) *Run {
	first := memstore.New()
	load := DefaultLoad()
	load.Warm, load.ToHot, load.MinHold, load.MaxHold = 64, 20, 0, 3*time.Millisecond
	return &Run{
		Name: "memory", Seed: 1, For: d, Workers: 2, Goroutines: 8, Load: load,
		Open: func(context.Context, string) (driver.Store, error) { return open(first.Open()), nil },
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	r := inMemory(func(s driver.Store) driver.Store { return s }, 5*time.Second)
	o, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := NewReport(r, o)
	var text strings.Builder
	p.Write(&text)
	t.Log(text.String())
	if p.Sum() > 0 || p.Grants < 500 {
		t.Error("that is not what memory promises")
	}
}
