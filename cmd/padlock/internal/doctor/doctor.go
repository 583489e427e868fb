// Package doctor looks for what makes locks in a store less safe than they
// seem: settings of a server, of a file system, of a network, and clocks. For
// that it asks the store, reads its URL, and takes a lock of its own and gives it
// back. It changes nothing else.
//
// What cannot be found out is Unknown, never Good.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// State is how a check came out.
type State string

// The states of a check.
const (
	Good    State = "good"
	Problem State = "problem"
	Unknown State = "unknown" // it could not be found out, and matters
)

// Finding is how one check came out.
type Finding struct {
	Check string // its name: "eviction", "clock", …
	Of    string // the store, or the server of several; never a secret
	State State
	Seen  string // what was seen
	Why   string // why that matters for a lock; empty if Good
	Do    string // what to do about it; empty if Good
}

// Options are what an examination needs to know.
type Options struct {
	// Open opens a store, with options besides those of the program.
	Open func(ctx context.Context, url string, opts ...open.Option) (padlock.Store, error)
	// Schemes are the kinds of stores that Open knows.
	Schemes open.Option
	// Name is the name of the lock that is taken and given back, and of two
	// more that begin so.
	Name string
	// TTL is the lease that locks in the store have.
	TTL time.Duration
	// Measure is how long clocks are watched.
	Measure time.Duration
	// Quick only takes a lock and releases it, once, at the store as a whole.
	Quick bool

	runs map[string]bool // filled with the run ids of the servers, if not nil
}

// visit is the examination of one store.
type visit struct {
	Options
	raw string // its URL, with secrets
	of  string // as it may be shown
	place
	mode  string // of the server: standalone, sentinel or cluster
	found []Finding
}

// place is what the URL of a store says.
type place struct {
	u         *url.URL // empty if package open refuses the URL
	composite bool     // a store made of stores
	inProcess bool
	servers   []string // HOST:PORT
	encrypted bool
	remote    bool // the store is on a server
}

// placeOf reads a URL.
func placeOf(rawURL string, schemes open.Option) place {
	u, s, err := open.Parse(rawURL, schemes)
	if err != nil {
		return place{u: &url.URL{}, remote: true}
	}
	p := place{u: u, composite: s.Composite, inProcess: s.InProcess, remote: s.Servers != nil}
	if p.remote {
		p.servers, p.encrypted = s.Servers(u)
	}
	return p
}

// Examine looks at the store of a URL. The error is about the URL alone, and
// answers errors.Is for padlock.ErrInvalid; a store that is out of reach is a
// finding.
func Examine(ctx context.Context, rawURL string, o Options) ([]Finding, error) {
	v := &visit{Options: o, raw: rawURL, of: open.Redacted(rawURL, o.Schemes), place: placeOf(rawURL, o.Schemes)}
	switch {
	case v.inProcess:
		v.problem("place", "locks are kept in the memory of one process",
			"two commands, or two programs, never meet there",
			"use a directory (file:///var/lib/locks) or a server")
		return v.found, nil
	case o.Quick:
		return v.quick(ctx)
	case v.composite:
		return v.several(ctx)
	}
	err := v.one(ctx)
	return v.found, err
}

// quick checks that a lock can be taken and released now. It sends two requests besides those that
// open the store. A lock that another doctor holds proves as much.
func (v *visit) quick(ctx context.Context) ([]Finding, error) {
	if v.u.Scheme == "file" && !v.exists(systemFiles{}) {
		return v.found, nil
	}
	store, err := v.Open(ctx, v.raw, open.Brief())
	if errors.Is(err, padlock.ErrInvalid) {
		return nil, err
	}
	if err != nil {
		v.refused("reach", err)
		return v.found, nil
	}
	l := padlock.New(store)
	defer v.close(l)
	begin := time.Now()
	lock, err := l.TryAcquire(ctx, v.Name, padlock.Label("padlock doctor"), padlock.NoRenewal())
	if err == nil {
		err = lock.Release()
	}
	if err != nil && !errors.Is(err, padlock.ErrHeld) {
		v.refused("rights", err)
		return v.found, nil
	}
	v.good("rights", fmt.Sprintf("a lock was taken and released in %v", tidy(time.Since(begin))))
	return v.found, nil
}

// one examines a store that is not made of others.
func (v *visit) one(ctx context.Context) error {
	if v.u.Scheme == "file" {
		if there := v.directory(systemFiles{}); !there {
			return nil // opening it would make it
		}
	} else if v.remote {
		v.network()
	}
	l, err := v.open(ctx)
	if l == nil {
		return err
	}
	defer v.close(l)
	if v.server(ctx, l) {
		v.works(ctx, l)
	}
	return nil
}

// open opens the store, if need be one that refuses to be used as it is: then
// the other checks say more. It returns an error for a URL that is wrong, and
// nothing at all for a store that is out of reach.
func (v *visit) open(ctx context.Context) (*padlock.Locker, error) {
	store, err := v.Open(ctx, v.raw)
	if errors.Is(err, padlock.ErrInvalid) {
		return nil, err
	}
	if err == nil {
		v.good("reach", "it can be used")
		return padlock.New(store), nil
	}
	v.problem("reach", plain(err), "padlock cannot use the store: what needs a lock there does not run",
		"see what else is found, and whether the server runs, is reached from here and knows the user")
	if store, err = v.Open(ctx, v.raw, open.Lenient()); err != nil {
		return nil, nil
	}
	return padlock.New(store), nil
}

// patience is how long a look at a store may take.
const patience = 20 * time.Second

func (v *visit) close(l *padlock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.Close(ctx) // what it left runs out by itself
}

// plain is the text of an error without what padlock says around it.
func plain(err error) string {
	var e *padlock.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return strings.ReplaceAll(err.Error(), padlock.ErrUnavailable.Error()+": ", "")
}

func (v *visit) add(check string, s State, seen, why, do string) {
	v.found = append(v.found, Finding{check, v.of, s, seen, why, do})
}

func (v *visit) good(check, seen string)             { v.add(check, Good, seen, "", "") }
func (v *visit) problem(check, seen, why, do string) { v.add(check, Problem, seen, why, do) }
func (v *visit) unknown(check, seen, why, do string) { v.add(check, Unknown, seen, why, do) }
