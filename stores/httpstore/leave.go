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

// leave gives up the place, and the lock that the token may have got. A request may arrive after
// the release. So leave releases again until the request is over, and once more if it, or an
// earlier one, got no answer. Any of the servers may have the place, so every one must answer.
func (p *poller) leave() {
	defer p.end()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	defer context.AfterFunc(p.s.calls.Closing, func() { time.AfterFunc(closeTime, cancel) })()
	text, err := json.Marshal(lock{Name: p.body.Name, NameBase64: p.body.NameBase64, Token: p.body.Token})
	if err != nil {
		return // there is no name that JSON cannot have
	}
	more, missing := 1, p.s.servers
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		over := false
		select {
		case <-p.over:
			over = true
		default:
		}
		if missing = releaseAt(ctx, missing, text); !over {
			missing = p.s.servers
		} else if len(missing) == 0 {
			if p.answered && !p.spread || more == 0 {
				return
			}
			more--
			missing, pause = p.s.servers, time.Second
		}
		if ctx.Err() != nil {
			return // the place ends with the grace of the server, and a hold with its lease
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-p.notYet(over):
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// releaseAt sends a release to all servers at the same time, so that a silent one holds up none of
// the others. It returns those that have not answered within the patience of a call.
func releaseAt(ctx context.Context, servers []server, text []byte) (missing []server) {
	ctx, cancel := context.WithTimeout(ctx, storekit.Patience)
	defer cancel()
	answered := make([]bool, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() {
			select {
			case server.leaving <- struct{}{}:
				defer func() { <-server.leaving }()
			case <-ctx.Done():
				return
			}
			a, err := send(ctx, server, "release", text)
			answered[i] = err == nil && a.status < http.StatusInternalServerError
		})
	}
	wg.Wait()
	for i, server := range servers {
		if !answered[i] {
			missing = append(missing, server)
		}
	}
	return missing
}

// notYet returns the channel that closes when the last request is over, or nil if it is.
func (p *poller) notYet(over bool) <-chan struct{} {
	if over {
		return nil
	}
	return p.over
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
