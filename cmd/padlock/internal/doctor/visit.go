package doctor

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// State is the result of a check.
type State string

// The states of a check.
const (
	Good    State = "good"
	Problem State = "problem"
	Unknown State = "unknown" // it matters and could not be found out
)

// Finding is the result of one check, with reasons.
type Finding struct {
	Check string // its name: "eviction", "clock", …
	Of    string // the store, or the server of several; never a secret
	State State
	Seen  string // the fact
	Why   string // why the fact matters for a lock; empty if Good
	Do    string // what to do about it; empty if Good
}

// Options are the options of an examination.
type Options struct {
	// Open opens a store, with options besides those of the program.
	Open func(ctx context.Context, url string, opts ...open.Option) (padlock.Store, error)
	// Schemes are the kinds of stores that Open knows.
	Schemes open.Option
	// Name is the name of the lock that is taken and released. Two more names begin with it.
	Name string
	// TTL is the usual lease of locks in the store.
	TTL time.Duration
	// Measure is how long the clocks are watched.
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

// open opens the store, leniently if it refuses to open, because the other checks then say more.
// It returns an error for a wrong URL, and neither a Locker nor an error for a store that cannot be
// reached.
func (v *visit) open(ctx context.Context) (*padlock.Locker, error) {
	store, err := v.Open(ctx, v.raw)
	if errors.Is(err, padlock.ErrInvalid) {
		return nil, err
	}
	if err == nil {
		v.good("reach", "the store can be used")
		return padlock.New(store), nil
	}
	v.problem("reach", plain(err), "padlock cannot use the store, so jobs that need a lock there do not run",
		"see the other findings; check that the server runs, can be reached from here and accepts the user")
	if store, err = v.Open(ctx, v.raw, open.Lenient()); err != nil {
		return nil, nil
	}
	return padlock.New(store), nil
}

// patience bounds one look at a store.
const patience = 20 * time.Second

func (v *visit) close(l *padlock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.Close(ctx) // its locks end with their leases
}

// plain is the text of an error without the prefixes of the library.
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

func (v *visit) good(check, seen string) { v.add(check, Good, seen, "", "") }

func (v *visit) problem(check, seen, why, do string) { v.add(check, Problem, seen, why, do) }

func (v *visit) unknown(check, seen, why, do string) { v.add(check, Unknown, seen, why, do) }
