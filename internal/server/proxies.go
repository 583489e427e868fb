package server

import (
	"sync"
	"testing"
)

// Proxies puts a separate proxy between the server and each store that a test opens. S is the type
// of the stores. A test can use the methods Cut and LoseReply as hooks of its drivertest.Harness.
type Proxies[S comparable] struct {
	made chan *Proxy
	mu   sync.Mutex
	by   map[S]*Proxy
}

// NewProxies starts proxies to a server. They end with the test. Each proxy is started in advance,
// before a call of Open needs it. The suite counts the goroutines that start while it opens a
// store, and the proxy's goroutines must not be among them.
func NewProxies[S comparable](t testing.TB, to string) *Proxies[S] {
	ps := &Proxies[S]{made: make(chan *Proxy), by: map[S]*Proxy{}}
	ctx := t.Context()
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			p := NewProxy(t, to)
			select {
			case ps.made <- p:
			case <-ctx.Done():
				p.Close()
			}
		}
	})
	t.Cleanup(wg.Wait)
	return ps
}

// Open calls the function open with the address of a new proxy. The store that the function returns
// must reach the server at that address.
func (ps *Proxies[S]) Open(open func(addr string) (S, error)) (S, error) {
	p := <-ps.made
	s, err := open(p.Addr())
	if err == nil {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.by[s] = p
	}
	return s, err
}

// Of returns the proxy of a store.
func (ps *Proxies[S]) Of(s S) *Proxy {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.by[s]
}

// Silence(true) stops the traffic on the connections of all stores, without closing them.
// Silence(false) lets it continue.
func (ps *Proxies[S]) Silence(on bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.by {
		p.Silence(on)
	}
}

// Cut closes the connections of a store without warning. It always returns nil.
func (ps *Proxies[S]) Cut(s S) error {
	ps.Of(s).Cut()
	return nil
}

// LoseReply returns a function that makes the proxy of a store drop one reply; see
// [Proxy.LoseReply]. That function always returns nil.
func (ps *Proxies[S]) LoseReply(chosen func(request []byte) bool) func(S) error {
	return func(s S) error {
		ps.Of(s).LoseReply(chosen)
		return nil
	}
}
