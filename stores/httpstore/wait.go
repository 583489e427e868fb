package httpstore

import (
	"context"
	"encoding/json"
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

// grace is how long a server keeps the place of a client that has gone.
const grace = 5 * time.Second

// JoinFirst implements driver.Waiter: there is never a guess.
func (s *Store) JoinFirst(string) bool { return false }

// Wait waits at a server; see driver.Waiter. What it hands over is a hold.
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
		g, err = s.waitInLine(both, &r)
	} else {
		err = s.waitAside(both, &r)
	}
	if err == nil {
		return g, nil
	}
	if reserve {
		s.calls.Work.Go(func() { s.leave(r.Name, r.Token) })
	}
	switch {
	case s.calls.Closing.Err() != nil:
		return driver.Grant{}, driver.ErrClosed
	case ctx.Err() != nil:
		return driver.Grant{}, ctx.Err()
	}
	return driver.Grant{}, err
}

// waitInLine asks again and again with the token of the request, which keeps its place. A zero
// Grant means that a new token should ask.
func (s *Store) waitInLine(ctx context.Context, r *driver.Request) (driver.Grant, error) {
	body := s.acquiring(r)
	body.Wait = poll.Milliseconds()
	heard := s.clock.Now() // when a server has answered last
	for {
		sent := s.clock.Now()
		a, err := s.ask(ctx, "acquire", body, poll)
		switch {
		case ctx.Err() != nil:
			return driver.Grant{}, ctx.Err()
		case err == nil && a.status == http.StatusAccepted:
			heard = s.clock.Now()
			continue
		case err == nil && a.status == http.StatusOK:
			var out granted
			if json.Unmarshal(a.body, &out) == nil && out.ValidMS > 0 {
				g := s.grant(&out)
				g.From = sent
				return g, nil
			}
		}
		if err = s.finish(ctx, a, err, new(granted)); err == nil {
			err = fmt.Errorf("%w: the lease was over before the answer", driver.ErrUncertain)
		}
		switch {
		case errors.Is(err, driver.ErrLost), errors.Is(err, driver.ErrHeld):
			return driver.Grant{}, nil // the token is spent, or not one that waits
		case !transient(err), s.clock.Now().Sub(heard) > storekit.Patience:
			return driver.Grant{}, err
		}
		if !storekit.Sleep(ctx, 100*time.Millisecond+rand.N(200*time.Millisecond)) {
			return driver.Grant{}, ctx.Err()
		}
	}
}

// transient reports whether a repeat may have another result: the connection broke, or a server is
// closing.
func transient(err error) bool {
	return errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrExpired)
}

// leave gives up the place of a token, and what it may have got.
func (s *Store) leave(name, token string) {
	ctx, cancel := context.WithTimeout(context.Background(), storekit.Patience)
	defer cancel()
	body := named(name)
	body.Token = wireToken(token)
	for {
		a, err := s.ask(ctx, "release", body, 0)
		if err == nil && (a.status == http.StatusOK || a.status < 500) {
			return
		}
		if !storekit.Sleep(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond)) {
			return // the place ends with the grace of the server, and a hold with its lease
		}
	}
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
