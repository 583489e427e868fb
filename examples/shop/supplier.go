package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stampede"
)

// Product is one thing that the shop sells.
type Product struct {
	SKU, Name, Text string
	Cents           int
}

// Catalogue is the supplier's answer.
type Catalogue struct {
	Products []Product
	At       time.Time
}

// supplier is slow, and has new prices every time that it is asked.
type supplier struct {
	delay time.Duration
	asked atomic.Int64
}

var products = []Product{
	{"brass", "Brass padlock", "The classic. One key, one owner at a time.", 1490},
	{"combination", "Combination lock", "Four digits, and nobody waits for a key.", 1890},
	{"bicycle", "Bicycle lock", "A loop that nothing leaves by itself.", 3450},
	{"chain", "Door chain", "Lets readers look in, and writers wait.", 1275},
	{"key", "Skeleton key", "For locks that somebody left behind.", 690},
	{"safe", "Small safe", "Survives a restart. And the fire brigade.", 12900},
}

// makeCatalogue makes a catalogue. All visitors share one catalogue, so makeCatalogue ignores its
// key.
func (s *supplier) makeCatalogue(ctx context.Context, _ string) (Catalogue, error) {
	s.asked.Add(1)
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return Catalogue{}, context.Cause(ctx)
	}
	c := Catalogue{At: time.Now()}
	for _, p := range products {
		p.Cents += 5 * rand.IntN(20)
		c.Products = append(c.Products, p)
	}
	return c, nil
}

const catalogueKey = "all"

// newCatalogues returns a cache for a catalogue. A catalogue is fresh for 10 s. For another minute,
// visitors get the old catalogue while one request asks for a new catalogue.
func newCatalogues(locker *padlock.Locker, values stampede.Values, s *supplier) (*stampede.Cache[Catalogue], error) {
	return stampede.New(locker, values, "catalogue", s.makeCatalogue, stampede.Fresh(10*time.Second), stampede.Stale(time.Minute))
}

func (s *shop) catalogue(ctx context.Context) (Catalogue, error) {
	return s.catalogues.Get(ctx, catalogueKey)
}

// A rush is a crowd of visitors who arrive at once when there is no catalogue.
type rush struct {
	Visitors int
	Asked    int64 // how often the supplier was asked
	Slowest  time.Duration
}

func (s *shop) rush(ctx context.Context, visitors int) (rush, error) {
	if err := s.catalogues.Invalidate(ctx, catalogueKey); err != nil {
		return rush{}, err
	}
	r := rush{Visitors: visitors}
	before, start := s.supplier.asked.Load(), time.Now()
	var all sync.WaitGroup
	var failed atomic.Value
	for range visitors {
		all.Go(func() {
			if _, err := s.catalogue(ctx); err != nil {
				failed.Store(err)
			}
		})
	}
	all.Wait()
	r.Asked, r.Slowest = s.supplier.asked.Load()-before, time.Since(start).Round(time.Millisecond)
	err, _ := failed.Load().(error)
	return r, err
}
