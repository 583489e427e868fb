package httpstore

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/overhttp"
)

const (
	leaveTime = 30 * time.Second // how long the store tries to give up a place
	closeTime = storekit.Patience / 2
	// maxLeaving is how many places one server is asked to give up at the same time. Without a
	// limit, a process that gives up a thousand waits at once opens a thousand connections, and its
	// other requests wait for them.
	maxLeaving = 32
)

// A server is one of the servers of the store.
type server struct {
	*overhttp.Client
	leaving chan struct{} // an element for each place that is being given up
}

// leave gives up the place, and the lock that the token may have got. Any of the servers may have
// the place, so every one must answer. A silent one holds up none of the others.
func (p *poller) leave() {
	defer p.end()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	defer context.AfterFunc(p.s.calls.Closing, func() { time.AfterFunc(closeTime, cancel) })()
	text, err := json.Marshal(lock{Name: p.body.Name, NameBase64: p.body.NameBase64, Token: p.body.Token})
	if err != nil {
		return // there is no name that JSON cannot have
	}
	var all sync.WaitGroup
	for _, server := range p.s.servers {
		all.Go(func() { p.leaveAt(ctx, server, text) })
	}
	all.Wait()
}

// leaveAt gives up the place at one server. The request of the wait may arrive after the release,
// or may have got the lock. So leaveAt releases again once that request is over, unless its answer
// says that the token has nothing. If the request, or an earlier one, got no answer, leaveAt
// releases once more. At the end of ctx, the place ends with the grace of the server, and a hold
// with its lease.
func (p *poller) leaveAt(ctx context.Context, to server, text []byte) {
	more := 1
	for pause := 20 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
		over := p.isOver()
		left := to.release(ctx, text)
		if left {
			pause = time.Second // if the token has got the lock, its request is over before
		}
		if left && over {
			if p.answered && !p.spread || more == 0 {
				return
			}
			more--
		}
		p.rest(ctx, pause, over)
		if left && p.isOver() && p.spent && !p.spread {
			return
		}
	}
}

// rest waits for about a pause, but no longer than until the last request is over.
func (p *poller) rest(ctx context.Context, pause time.Duration, over bool) {
	end := p.over
	if over {
		end = nil
	}
	timer := time.NewTimer(pause/2 + rand.N(pause))
	defer timer.Stop()
	select {
	case <-end:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// release sends a release, and reports whether the server has carried it out. The patience of a
// call begins when the server may be asked: while many places are given up, each gets its turn.
func (to server) release(ctx context.Context, text []byte) bool {
	select {
	case to.leaving <- struct{}{}:
		defer func() { <-to.leaving }()
	case <-ctx.Done():
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, storekit.Patience)
	defer cancel()
	a, err := send(ctx, to, "release", text)
	return err == nil && a.status < http.StatusInternalServerError
}

// isOver reports whether the last request is over.
func (p *poller) isOver() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

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
