package server

import (
	"sync"
	"testing"
)

// Proxies gives each store that a test opens a proxy of its own. S is the type of the stores. Its
// methods Cut and LoseReply, and those of Server, Crash and Freeze, fit into a drivertest.Harness.
type Proxies[S comparable] struct {
	made chan *Proxy
	mu   sync.Mutex
	by   map[S]*Proxy
}

// NewProxies starts proxies to a server, which end with the test. It starts each proxy before Open
// needs it, because the suite of stores counts the goroutines that start while it opens a store.
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

// Open opens a store through a new proxy, at whose address the server can be reached.
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

// Silence makes the connections of all stores stand still, or lets them continue.
func (ps *Proxies[S]) Silence(on bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.by {
		p.Silence(on)
	}
}

// Cut closes the connections of a store without warning. Its result is always nil.
func (ps *Proxies[S]) Cut(s S) error {
	ps.Of(s).Cut()
	return nil
}

// LoseReply returns a function that loses the reply to the next request of a store that chosen
// selects. See Proxy.LoseReply. The result of that function is always nil.
func (ps *Proxies[S]) LoseReply(chosen func(request []byte) bool) func(S) error {
	return func(s S) error {
		ps.Of(s).LoseReply(chosen)
		return nil
	}
}
