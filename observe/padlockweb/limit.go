package padlockweb

import "sync"

// places limits how many streams are open, in all and for each client.
type places struct {
	most, each int

	mu   sync.Mutex
	all  int
	by   map[string]int
	gone bool // the Handler is closed
}

// takePlace takes a place for a stream of the client. The function free gives the place back.
func (p *places) takePlace(client string) (free func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.all >= p.most || p.by[client] >= p.each {
		return nil, false
	}
	p.all++
	p.by[client]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.by[client]--; p.by[client] == 0 {
			delete(p.by, client)
		}
	}, true
}

func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
}
