package httpstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// poll is how long one request waits at a server. Many proxies end a request after 30 seconds.
const poll = 20 * time.Second

// pollFor returns how long one request for r waits. The time of a grant counts from the moment at
// which the request was sent, and the caller takes 1 % of it off. Of a short lease, nothing would
// be left after a long wait.
func pollFor(r *driver.Request) time.Duration { return min(poll, 10*r.TTL) }

// lostPoll replaces poll after a lost request. The server that has got it may get the lock for the
// token, and no other server finds that before its own request ends.
const lostPoll = time.Second

// grace is how long a server keeps the place of a client that has gone.
const grace = 5 * time.Second

// Wait waits at a server; see driver.Waiter. It hands over holds, and never reservations.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := r.Validate(&s.g); err != nil {
		return driver.Grant{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.calls.Work.Done()
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls.Closing, cancel)()
	var g driver.Grant
	var err error
	if reserve {
		g, err = s.waitAtServer(both, &r)
	} else {
		err = s.waitAside(both, &r)
	}
	switch {
	case err == nil:
		return g, nil
	case s.calls.Closing.Err() != nil:
		return driver.Grant{}, driver.ErrClosed
	case ctx.Err() != nil:
		return driver.Grant{}, ctx.Err()
	}
	return driver.Grant{}, err
}

// waitAtServer waits with a place at a server. If it fails, the place is given up in the
// background.
func (s *Store) waitAtServer(ctx context.Context, r *driver.Request) (driver.Grant, error) {
	p := &poller{s: s, body: s.acquiring(r), each: pollFor(r)}
	p.body.Wait = p.each.Milliseconds()
	p.life, p.end = context.WithCancel(context.Background())
	g, err := p.wait(ctx)
	switch {
	case err == nil && g.TTL == 0 && p.spread: // the token is spent, and may have a place elsewhere
		s.calls.Work.Go(p.leave)
	case err == nil:
		if p.spread {
			s.spread.add(spreadID{r.Name, r.Token.Text()}, p)
		}
		p.end()
	default:
		s.calls.Work.Go(p.leave)
	}
	return g, err
}

// A poller is the wait of one token. Its requests outlive the caller's context: if one of them were
// interrupted, it could still reach the server, after the release that gives the place up.
type poller struct {
	s    *Store
	body lock
	each time.Duration // how long a request waits
	life context.Context
	end  context.CancelFunc

	// spread means that a request was lost, and that there are several servers: one that did not
	// grant the lock may still have a place for the token.
	spread bool
	lost   driver.Instant // when a request was lost last

	over     chan struct{} // closed when the last request is over
	answered bool          // whether it was answered
	spent    bool          // whether the answer says that the token has neither a place nor the lock
}

// wait asks again and again with the same token, which keeps its place. A zero Grant means that a
// new token should ask.
func (p *poller) wait(ctx context.Context) (driver.Grant, error) {
	s := p.s
	var failing driver.Instant // when the first of the requests failed that followed the last answer
	for {
		sent := s.clock.Now()
		a, err := p.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return driver.Grant{}, ctx.Err()
		case err == nil && a.status == http.StatusAccepted && a.read(new(goesOn)) == nil:
			heard := s.clock.Now()
			if failing = 0; heard.Sub(p.lost) > 2*grace {
				p.body.Wait = p.each.Milliseconds()
			}
			if heard.Sub(sent) < lostPoll/10 && !storekit.Sleep(ctx, lostPoll/10) { // something on the way ends requests early
				return driver.Grant{}, ctx.Err()
			}
			continue
		case err == nil && a.status == http.StatusOK:
			var out granted
			if a.read(&out) == nil && *out.ValidMS > 0 {
				g := s.grant(&out)
				g.From = sent
				return g, nil
			}
		}
		if err = s.finish(ctx, a, err, new(granted)); err == nil {
			err = fmt.Errorf("%w: the lease was over before the answer", driver.ErrUncertain)
		}
		now := s.clock.Now()
		if failing == 0 {
			failing = now
		}
		switch {
		case errors.Is(err, driver.ErrLost), errors.Is(err, driver.ErrHeld):
			return driver.Grant{}, nil // the token is spent, or not one that waits
		case !transient(err), now.Sub(failing) > storekit.Patience:
			return driver.Grant{}, err
		}
		p.lost, p.body.Wait, p.spread = now, lostPoll.Milliseconds(), len(s.servers) > 1
		if !storekit.Sleep(ctx, 100*time.Millisecond+rand.N(200*time.Millisecond)) {
			return driver.Grant{}, ctx.Err()
		}
	}
}

// goesOn is the answer while the client keeps its place.
type goesOn struct {
	RetryMS *int64 `json:"retry_ms"`
}

func (g *goesOn) complete() bool { return g.RetryMS != nil }

// ask sends one request, and returns early if ctx ends.
func (p *poller) ask(ctx context.Context) (*answer, error) {
	var got *answer
	var failed error
	over := make(chan struct{})
	p.over = over
	p.s.calls.Work.Go(func() {
		defer close(over)
		got, failed = p.s.ask(ctx, p.life, "acquire", p.body, time.Duration(p.body.Wait)*time.Millisecond)
		p.answered = failed == nil
		p.spent = p.answered && got.problem().Error == "lost"
	})
	select {
	case <-over:
		return got, failed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// transient reports whether a repeat may have another result: the connection broke, or a server is
// closing.
func transient(err error) bool {
	return errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrExpired)
}

// The pauses between two looks at a name.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// waitAside returns when the name may be free. It has no place at a server: it looks at the name
// from time to time, or, without the right to read, returns after a pause.
func (s *Store) waitAside(ctx context.Context, r *driver.Request) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		state, err := s.inspect(ctx, r.Name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if storekit.Sleep(ctx, lastPause) {
				return nil
			}
			return ctx.Err()
		case !taken(state.Holds, r.Shared):
			return nil
		}
		if !storekit.Sleep(ctx, pause/2+rand.N(pause)) {
			return ctx.Err()
		}
	}
}

// taken reports whether one of the holds is in the way of a request.
func taken(all []driver.Hold, shared bool) bool {
	for _, h := range all {
		if !shared || !h.Shared || h.Cooling {
			return true
		}
	}
	return false
}
