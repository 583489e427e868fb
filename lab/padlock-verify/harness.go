package main

import (
	"context"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
)

// harness returns what the suite of the contract needs. All its stores share their proxies: a store
// compares the addresses of two places.
func (c *certification) harness(anonymous bool) (drivertest.Harness, error) {
	w := &c.suite
	url, err := w.addProxies(c.url)
	h := drivertest.Harness{
		Prefix: c.probePrefix(), Anonymous: anonymous, Slow: true, Parallel: 16,
		Open: func(ctx context.Context) (driver.Store, error) { return openStore(ctx, url) },
	}
	if err != nil || len(w.all) == 0 || len(w.unproxied) > 0 {
		return h, err
	}
	h.CutConnection = func(driver.Store) error {
		for _, p := range w.all {
			p.Cut()
		}
		return nil
	}
	h.Pause = func() (func() error, error) {
		silence := func(on bool) {
			for _, p := range w.all {
				p.Silence(on)
			}
		}
		silence(true)
		return func() error { silence(false); return nil }, nil
	}
	return h, nil
}
