package padlockweb

import (
	"sync"
	"time"
)

// attempts limits failed logins. Each address may fail loginBurst times, and once more after each
// period of loginEvery. All addresses of an IPv6 network /64 count as one, since one client can use
// them all. At most maxAddresses addresses have a limit of their own. All further addresses share a
// single limit.
type attempts struct {
	mu  sync.Mutex
	all map[string]*bucket
}

// bucket counts the failures of one address that are not forgiven yet.
type bucket struct {
	failures float64
	at       time.Time // when failures was computed
}

const (
	loginBurst   = 10
	loginEvery   = 6 * time.Second
	maxAddresses = 1024
)

// otherAddresses is the key of the bucket that addresses share if the map is full.
const otherAddresses = "*"

// waitTime returns how long the address must wait for its next attempt. 0 means that it may try
// now.
func (a *attempts) waitTime(address string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.all[address]
	if b == nil && len(a.all) >= maxAddresses {
		b = a.all[otherAddresses]
	}
	if b == nil {
		return 0
	}
	b.forgive(now)
	if over := b.failures - (loginBurst - 1); over > 0 {
		return time.Duration(over * float64(loginEvery))
	}
	return 0
}

// failed counts a failed login.
func (a *attempts) failed(address string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[string]*bucket)
	}
	if a.all[address] == nil && len(a.all) >= maxAddresses {
		a.drop(now)
	}
	if a.all[address] == nil && len(a.all) >= maxAddresses {
		address = otherAddresses // so the map has at most maxAddresses + 1 entries
	}
	b := a.all[address]
	if b == nil {
		b = &bucket{at: now}
		a.all[address] = b
	}
	b.forgive(now)
	b.failures = min(b.failures+1, loginBurst)
}

// drop removes the addresses whose failures are all forgiven.
func (a *attempts) drop(now time.Time) {
	for address, b := range a.all {
		if b.forgive(now); b.failures == 0 {
			delete(a.all, address)
		}
	}
}

func (b *bucket) forgive(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.failures = max(0, b.failures-float64(passed)/float64(loginEvery))
		b.at = now
	}
}

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
	if p.by == nil {
		p.by = make(map[string]int)
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

// openStreams returns how many streams are open.
func (p *places) openStreams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
}
