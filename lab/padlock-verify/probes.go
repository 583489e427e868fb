package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/lab/certificate"
)

// prober asks a store through two connections.
type prober struct {
	stores [2]driver.Store
	g      driver.Guarantees
	prefix string
	ttl    time.Duration
	names  int
}

func newProber(c *certification, stores [2]driver.Store) *prober {
	p := &prober{stores: stores, g: stores[0].Guarantees(), prefix: c.probePrefix(), ttl: 30 * time.Second}
	if p.g.MaxTTL > 0 {
		p.ttl = min(p.ttl, p.g.MaxTTL)
	}
	return p
}

// showsHolders reports whether the store shows the holder that a request names, and not the one that
// the server knows.
func (p *prober) showsHolders(ctx context.Context) bool {
	admin, ok := driver.As[driver.Admin](p.stores[1])
	if !ok {
		return false
	}
	r := p.request(p.newName())
	if _, err := p.stores[0].Acquire(ctx, r); err != nil {
		return true // the suite tells
	}
	defer p.stores[0].Release(ctx, r.Name, r.Token.Text(), 0)
	state, err := admin.Inspect(ctx, r.Name)
	return err != nil || len(state.Holds) == 0 || state.Holds[0].Host == r.Holder.Host
}

// probe asks what the suite of the contract asks once or twice, but many times: it finds a service
// that is wrong once in a thousand requests.
func (c *certification) probe(ctx context.Context, p *prober) {
	span := min(max(c.span/6, 2*time.Second), time.Minute)
	within := func(ask func(context.Context, *certificate.Question) error) func(*certificate.Question) error {
		return func(q *certificate.Question) error {
			limited, cancel := context.WithTimeout(ctx, span)
			defer cancel()
			return ask(limited, q)
		}
	}
	for _, writers := range []int{2, 16} {
		say(fmt.Sprintf("%d writers at once", writers))
		c.add(certificate.Question{
			Name:  fmt.Sprintf("conditions/%d", writers),
			Asked: fmt.Sprintf("of %d programs that ask for a free name at once over two connections, exactly one gets it; its fence is above the last one; a repeated request gets the same hold; a release by a stranger frees nothing", writers),
		}, within(func(ctx context.Context, q *certificate.Question) error { return p.contend(ctx, q, writers) }))
	}
	for _, writers := range []int{2, 16} {
		q := certificate.Question{
			Name:  fmt.Sprintf("writes/%d", writers),
			Asked: fmt.Sprintf("of %d bare conditional writes of one version at once, one is carried out; none for a stale version, and none that demands that there is no value", writers),
		}
		checker, ok := driver.As[interface {
			CheckWrites(ctx context.Context, rounds, each int) (int, error)
		}](p.stores[0])
		if !ok {
			c.skip(q, "the store uses no conditional writes")
			continue
		}
		c.add(q, within(func(ctx context.Context, q *certificate.Question) (err error) {
			q.Counts["writers"] = writers
			q.Counts["rounds"], err = checker.CheckWrites(ctx, math.MaxInt, writers)
			return unlessLate(ctx, err)
		}))
	}
	c.add(certificate.Question{
		Name:  "reads/after-write",
		Asked: "a second connection sees at once that a name was taken, and that it was released; a list shows both",
	}, within(p.readsAfterWrites))
	c.add(certificate.Question{
		Name:  "clock/now",
		Asked: "the service's clock differs from this machine's by less than a minute, and all front ends of the service have the same time",
	}, within(p.clock))
}

// unlessLate returns err, or nil if the time for the question is over.
func unlessLate(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, driver.ErrInvalid) {
		return nil
	}
	return err
}

func (p *prober) newName() string {
	p.names++
	return fmt.Sprintf("%sprobe:%d", p.prefix, p.names)
}

func (p *prober) request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(rand.Text()), TTL: p.ttl, Holder: driver.Holder{Host: "padlock-verify", PID: os.Getpid()}}
}

// A try is one request for a name.
type try struct {
	driver.Request
	driver.Grant
	err error
}

// askAtOnce sends so many requests for a name at once, alternately over both connections.
func (p *prober) askAtOnce(ctx context.Context, name string, writers int) []try {
	tries := make([]try, writers)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range tries {
		t := &tries[i]
		t.Request = p.request(name)
		all.Go(func() {
			<-begin
			t.Grant, t.err = p.stores[i%2].Acquire(ctx, t.Request)
		})
	}
	close(begin)
	all.Wait()
	return tries
}

// rounds calls ask again and again until ctx ends, and counts the calls. ask gets the number of the
// round.
func rounds(ctx context.Context, q *certificate.Question, ask func(round int) error) error {
	for round := 0; ctx.Err() == nil && q.Verdict != certificate.Broke; round++ {
		if err := ask(round); err != nil {
			return unlessLate(ctx, err)
		}
		q.Counts["rounds"]++
	}
	return nil
}

// freshNames is how many rounds use a name before a new one is taken: the first write of a name has
// another condition than the others.
const freshNames = 8

// contend is conditions/2 and conditions/16.
func (p *prober) contend(ctx context.Context, q *certificate.Question, writers int) error {
	q.Counts["writers"] = writers
	var name string
	var fence uint64
	return rounds(ctx, q, func(round int) error {
		if round%freshNames == 0 {
			name, fence = p.newName(), 0
		}
		whole := context.WithoutCancel(ctx) // the round that has begun has an answer
		began := time.Now()
		tries := p.askAtOnce(whole, name, writers)
		var granted []int
		unknown := false
		for i := range tries {
			switch t := &tries[i]; {
			case t.err == nil:
				granted = append(granted, i)
			case errors.Is(t.err, driver.ErrHeld):
				q.Counts["refused"]++
			case errors.Is(t.err, driver.ErrUncertain), errors.Is(t.err, driver.ErrUnavailable):
				unknown = true
				q.Counts["without an answer"]++
			default:
				return t.err
			}
		}
		q.Counts["grants"] += len(granted)
		inLease := time.Since(began) < p.ttl/2
		switch {
		case len(granted) > 1 && inLease:
			text := fmt.Sprintf("round %d: %d of %d programs got the name at once:", round, len(granted), writers)
			for _, i := range granted {
				text += fmt.Sprintf(" number %d over connection %d with fence %d;", i, i%2+1, tries[i].Fence)
			}
			broke(q, text)
		case len(granted) == 0 && !unknown:
			q.Counts["rounds without a grant"]++
		case len(granted) == 1:
			if t := &tries[granted[0]]; p.g.Fence != driver.FenceNone {
				if err := safety.FenceRises(t.Grant.Fence, fence); err != nil {
					broke(q, fmt.Sprintf("round %d: %v", round, err))
				}
				fence = t.Grant.Fence
			}
			if round%freshNames == 0 { // on some stores a release by a stranger takes long
				if err := p.keeps(whole, q, &tries[granted[0]], p.stores[granted[0]%2], p.stores[1-granted[0]%2], began); err != nil {
					return err
				}
			}
		}
		return p.releaseAll(whole, tries)
	})
}

// keeps checks that a hold stays through a repeated request and a release by a stranger.
func (p *prober) keeps(ctx context.Context, q *certificate.Question, t *try, own, other driver.Store, began time.Time) error {
	g, err := own.Acquire(ctx, t.Request)
	switch {
	case time.Since(began) > p.ttl/2:
		return nil
	case errors.Is(err, driver.ErrUncertain), errors.Is(err, driver.ErrUnavailable):
		q.Counts["without an answer"]++
		return nil
	case err != nil:
		broke(q, fmt.Sprintf("the request of the holder was repeated, and refused: %v", err))
	case g.Fence != t.Grant.Fence:
		broke(q, fmt.Sprintf("the request of the holder was repeated: its fence was %d and is %d", t.Grant.Fence, g.Fence))
	}
	if _, err := other.Release(ctx, t.Name, rand.Text(), 0); err != nil {
		return nil // no answer, which says nothing about the service's conditions
	}
	r := p.request(t.Name)
	if _, err = other.Acquire(ctx, r); err == nil && time.Since(began) < p.ttl/2 {
		broke(q, "a release with another token freed the name: the second connection got it")
		_, err = other.Release(ctx, r.Name, r.Token.Text(), 0)
	}
	return ignoreAnswers(err)
}

// ignoreAnswers returns nil for errors that a service under load may have.
func ignoreAnswers(err error) error {
	if errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) {
		return nil
	}
	return err
}

// releaseAll ends what the requests may have.
func (p *prober) releaseAll(ctx context.Context, tries []try) error {
	for i := range tries {
		t := &tries[i]
		if errors.Is(t.err, driver.ErrHeld) {
			continue
		}
		if _, err := p.stores[i%2].Release(ctx, t.Name, t.Token.Text(), 0); ignoreAnswers(err) != nil {
			return err
		}
	}
	return nil
}

// readsAfterWrites is reads/after-write.
func (p *prober) readsAfterWrites(ctx context.Context, q *certificate.Question) error {
	admin, ok := driver.As[driver.Admin](p.stores[1])
	if !ok || p.g.Lacks&driver.AbilityInspect != 0 {
		return errors.ErrUnsupported
	}
	const lists = 16 // the server may have to look at all its names for a list
	name := p.newName()
	return rounds(ctx, q, func(round int) error {
		if round%freshNames == 0 {
			name = p.newName()
		}
		r := p.request(name)
		began := time.Now()
		if _, err := p.stores[0].Acquire(ctx, r); err != nil {
			if errors.Is(err, driver.ErrHeld) {
				broke(q, fmt.Sprintf("round %d: the name was released, and the next request of the same connection was refused", round))
			}
			return err
		}
		if err := p.seen(ctx, q, admin, name, true, round); err != nil {
			return err
		}
		if round < lists || round%freshNames == 0 && round < lists*freshNames {
			if err := p.listed(ctx, q, admin, name); err != nil {
				return err
			}
		}
		if time.Since(began) > p.ttl/2 { // the hold may have ended
			q.Verdict, q.Seen = certificate.Held, nil
		}
		if _, err := p.stores[0].Release(ctx, name, r.Token.Text(), 0); err != nil {
			return err
		}
		return p.seen(ctx, q, admin, name, false, round)
	})
}

// seen checks what the second connection sees of a name.
func (p *prober) seen(ctx context.Context, q *certificate.Question, admin driver.Admin, name string, held bool, round int) error {
	state, err := admin.Inspect(ctx, name)
	if err != nil {
		return err
	}
	q.Counts["reads"]++
	if len(state.Holds) > 0 != held {
		what := map[bool]string{true: "taken and the second connection saw it free", false: "released and the second connection saw it held"}[held]
		broke(q, fmt.Sprintf("round %d: the name was %s", round, what))
	}
	return nil
}

func (p *prober) listed(ctx context.Context, q *certificate.Question, admin driver.Admin, name string) error {
	states, err := admin.List(ctx, name)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	q.Counts["lists"]++
	for _, s := range states {
		if s.Name == name && len(s.Holds) > 0 {
			return nil
		}
	}
	broke(q, "the name was taken, and the list of the second connection did not have it")
	return nil
}

const (
	// clockLimit is the tolerated difference between the clocks of the service and this machine: the
	// owner of either may not keep it as exactly as the other.
	clockLimit = time.Minute
	// clockNames is how many names are taken to read the service's clock.
	clockNames = 16
)

// clock is clock/now. A durable fence is the service's time; see driver.FenceDurable.
func (p *prober) clock(ctx context.Context, q *certificate.Question) error {
	if p.g.Fence != driver.FenceDurable || p.g.Observed {
		return errors.ErrUnsupported
	}
	// A store over a coarse clock, or front ends that may differ, says so in its shortest lease: see
	// register.Clock.
	tolerance := 100*time.Millisecond + p.g.MinTTL/5
	var least, most time.Duration
	for i := range clockNames {
		r := p.request(p.newName())
		s := p.stores[i%2]
		sent := time.Now()
		g, err := s.Acquire(ctx, r)
		if err != nil {
			return unlessLate(ctx, err)
		}
		got := time.Now()
		if _, err := s.Release(ctx, r.Name, r.Token.Text(), 0); err != nil {
			return unlessLate(ctx, err)
		}
		q.Counts["readings"]++
		at := time.UnixMicro(int64(g.Fence))
		early, late := at.Sub(got), at.Sub(sent) // the difference is between these
		if i == 0 {
			least, most = late, early
		}
		least, most = min(least, late), max(most, early)
	}
	q.Counts["milliseconds ahead"] = int(least.Milliseconds())
	switch {
	case most > clockLimit+tolerance:
		broke(q, fmt.Sprintf("the service's clock is %v ahead of this machine's", most.Round(time.Millisecond)))
	case least < -clockLimit-tolerance:
		broke(q, fmt.Sprintf("the service's clock is %v behind this machine's", -least.Round(time.Millisecond)))
	case most-least > tolerance:
		broke(q, fmt.Sprintf("the service's clock was from %v to %v ahead of this machine's: its front ends differ", least.Round(time.Millisecond), most.Round(time.Millisecond)))
	}
	return nil
}
