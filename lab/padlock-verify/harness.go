package main

import (
	"context"
	"sync"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
)

// harness returns what the suite of the contract needs, and a function that ends it. Each store has
// proxies of its own, so that the suite can cut its connections alone.
func (c *certification) harness(anonymous bool) (h drivertest.Harness, end func()) {
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
	proxied := func() (url string, own []*server.Proxy, err error) {
		mu.Lock()
		defer mu.Unlock()
		before, done := len(w.all), make(chan bool)
		unlabelled <- func() {
			url, err = w.addProxies(c.url)
			close(done)
		}
		<-done
		return url, w.all[before:], err
	}
	h = drivertest.Harness{Prefix: c.probePrefix(), Anonymous: anonymous, Slow: true, Parallel: 16}
	h.Open = func(ctx context.Context) (driver.Store, error) {
		url, own, err := proxied()
		if err != nil {
			return nil, err
		}
		s, err := openStore(ctx, url)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			behind[s] = own
		}
		return s, err
	}
	if !c.isProxied() {
		return h, end
	}
	if c.paper.Kind != "zookeeper" { // its sessions outlive their connections
		h.CutConnection = func(s driver.Store) error {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range behind[s] {
				p.Cut()
			}
			return nil
		}
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

// isProxied reports whether proxies are between this program and all servers of the store.
func (c *certification) isProxied() bool { return len(c.wires.all) > 0 && len(c.wires.unproxied) == 0 }
