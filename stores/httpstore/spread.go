package httpstore

import (
	"context"
	"sync"

	"github.com/padlock-go/padlock/storekit"
)

// spreadTime is how long a server may keep a place after its request was lost: until it notices
// that the client has gone, and for the grace after that.
const spreadTime = poll + storekit.Patience + 2*grace

// spread has the pollers that got the lock after a lost request. Another server may still have a
// place for the token of such a poller. When the lock is released, it would get the lock for that
// token, and nobody would know of it.
type spread struct {
	mu sync.Mutex
	by map[spreadID]*poller
}

type spreadID struct{ name, token string }

// add remembers a poller, and forgets those whose places are over.
func (a *spread) add(id spreadID, p *poller) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = make(map[spreadID]*poller)
	}
	for id, old := range a.by {
		if p.lost.Sub(old.lost) > spreadTime {
			delete(a.by, id)
		}
	}
	a.by[id] = p
}

// take returns the poller, or nil, and forgets it.
func (a *spread) take(id spreadID) *poller {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.by[id]
	delete(a.by, id)
	return p
}

// leaveSpread gives up, in the background, the places that other servers may have for a token whose
// lock is over.
func (s *Store) leaveSpread(name, token string) {
	p := s.spread.take(spreadID{name, token})
	if p == nil || s.calls.Begin(context.Background()) != nil {
		return
	}
	defer s.calls.Work.Done()
	s.calls.Work.Go(p.leave)
}
