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
	unlabelled, end := elsewhere()
	var mu sync.Mutex
	behind := map[driver.Store][]*server.Proxy{}
	w := &c.suite
	proxied := func() (url string, own []*server.Proxy, err error) {
		mu.Lock()
		defer mu.Unlock()
		before := len(w.all)
		unlabelled(func() { url, err = w.addProxies(c.url) })
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
	each := func(of func() []*server.Proxy, do func(*server.Proxy)) error {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range of() {
			do(p)
		}
		return nil
	}
	if c.paper.Kind != "zookeeper" { // its sessions outlive their connections
		h.CutConnection = func(s driver.Store) error {
			return each(func() []*server.Proxy { return behind[s] }, (*server.Proxy).Cut)
		}
	}
	h.Pause = func() (func() error, error) {
		silence := func(on bool) error {
			return each(func() []*server.Proxy { return w.all }, func(p *server.Proxy) { p.Silence(on) })
		}
		return func() error { return silence(false) }, silence(true)
	}
	return h, end
}

// elsewhere returns a function that runs others in one goroutine, which end ends. The suite finds the
// goroutines of a store by a label that they inherit; what begins in this goroutine does not have it.
func elsewhere() (run func(func()), end func()) {
	work, done := make(chan func()), make(chan bool)
	go func() {
		for f := range work {
			f()
			done <- true
		}
	}()
	return func(f func()) { work <- f; <-done }, func() { close(work) }
}

// isProxied reports whether proxies are between this program and all servers of the store.
func (c *certification) isProxied() bool { return len(c.wires.all) > 0 && len(c.wires.unproxied) == 0 }
