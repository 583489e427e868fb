package main

import (
	"context"
	"sync"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
)

// harness returns what the suite of the contract needs, and a function that ends it. Each store has
// proxies of its own, so that the suite can cut its connections.
func (c *certification) harness() (h drivertest.Harness, end func()) {
	// The suite finds the goroutines of a store by a label that they inherit. Proxies that begin in
	// this goroutine do not have it.
	unlabelled := make(chan func())
	go func() {
		for f := range unlabelled {
			f()
		}
	}()
	end = func() { close(unlabelled) }
	var mu sync.Mutex
	behind := map[driver.Store][]*server.Proxy{}
	w := &c.suite
	h = drivertest.Harness{Prefix: c.probePrefix(), Open: func(ctx context.Context) (driver.Store, error) {
		mu.Lock()
		var url string
		var err error
		before, done := len(w.all), make(chan bool)
		unlabelled <- func() {
			url, err = w.addProxies(c.url)
			close(done)
		}
		<-done
		own := w.all[before:]
		mu.Unlock()
		if err != nil {
			return nil, err
		}
		s, err := openStore(ctx, url)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		behind[s] = own
		return s, nil
	}}
	if len(c.wires.all) == 0 || len(c.wires.unproxied) > 0 {
		return h, end
	}
	h.CutConnection = func(s driver.Store) error {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range behind[s] {
			p.Cut()
		}
		return nil
	}
	h.Pause = func() (func() error, error) {
		silence := func(on bool) error {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range w.all {
				p.Silence(on)
			}
			return nil
		}
		return func() error { return silence(false) }, silence(true)
	}
	return h, end
}
