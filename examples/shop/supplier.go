package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/stampede"
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

// supplier is slow.
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

// sells reports whether the product exists.
func sells(sku string) bool {
	return slices.ContainsFunc(products, func(p Product) bool { return p.SKU == sku })
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
	return Catalogue{products, time.Now()}, nil
}

const catalogueKey = "all"

// newCatalogues returns a cache for a catalogue. A catalogue is fresh for 10 s. For another minute,
// visitors get the old catalogue while one request asks for a new catalogue.
func newCatalogues(locker *padlock.Locker, values stampede.Values, s *supplier) (*stampede.Cache[Catalogue], error) {
	return stampede.New(locker, values, "catalogue", s.makeCatalogue, stampede.Fresh(10*time.Second), stampede.Stale(time.Minute))
}
