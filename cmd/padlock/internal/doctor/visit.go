package doctor

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/open"
)

// State is the result of a check.
type State string

// The states of a check.
const (
	Good    State = "good"
	Problem State = "problem"
	Unknown State = "unknown" // the fact matters but could not be found out
)

// Finding is the result of one check.
type Finding struct {
	Check string // the name of the check: "eviction", "clock", …
	Of    string // the store, or one of its servers, without secrets
	State State
	Seen  string // the observed fact
	Why   string // why the fact matters for a lock; empty if Good
	Do    string // what to do about it; empty if Good
}

// Options are the options of an examination.
type Options struct {
	// Open opens a store with the options of the program and with opts.
	Open func(ctx context.Context, url string, opts ...open.Option) (padlock.Store, error)
	// Schemes are the kinds of stores that Open supports.
	Schemes open.Option
	// Name is the name of the lock that the examination takes and releases. The examination also
	// locks two other names, which begin with Name.
	Name string
	// TTL is the usual lease of locks in the store.
	TTL time.Duration
	// Measure is how long the clocks are observed.
	Measure time.Duration
	// If Quick is true, the examination only takes and releases one lock. It does not examine the
	// parts of a store that combines other stores.
	Quick bool

	runs map[string]bool // if not nil, the run ids of the servers are added to it
}

// visit is the examination of one store.
type visit struct {
	Options
	raw string // the URL, with secrets
	of  string // the URL without secrets
	place
	mode  string // mode of the server: standalone, sentinel or cluster
	found []Finding
}

// place is the information in the URL of a store.
type place struct {
	u         *url.URL // empty if package open refuses the URL
	composite bool     // the store combines other stores
	inProcess bool
	servers   []string // HOST:PORT of each
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

// openStore opens the store. If the store refuses to open, openStore tries again with lenient
// options, so that other checks can find out more. It returns an error if the URL is wrong. It
// returns neither a Locker nor an error if the store cannot be reached.
func (v *visit) openStore(ctx context.Context) (*padlock.Locker, error) {
	store, err := v.Open(ctx, v.raw)
	if errors.Is(err, padlock.ErrInvalid) {
		return nil, err
	}
	if err == nil {
		v.good("reach", "the store can be used")
		return padlock.New(store), nil
	}
	v.problem("reach", plain(err), "padlock cannot use the store, so jobs that need a lock there do not run",
		"see the other findings; "+doAboutOpening(err))
	if store, err = v.Open(ctx, v.raw, open.Lenient()); err != nil {
		return nil, nil
	}
	return padlock.New(store), nil
}

// doAboutOpening returns what to do about a server that could not be used.
func doAboutOpening(err error) string {
	if strings.Contains(plain(err), "-announce-ip") { // the servers have named it, not the user
		return "check that the named server runs; if it does, let it announce an address that can be reached from here"
	}
	return "check that the server runs, can be reached from here and accepts the user"
}

// patience is the time limit of one check of a store.
const patience = 20 * time.Second

func (v *visit) close(l *padlock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.Close(ctx) // if Close fails, the locks end with their leases
}

// plain returns the text of an error without the library's prefixes and Go's words.
func plain(err error) string {
	return strings.ReplaceAll(texts.Reason(err), context.DeadlineExceeded.Error(), "it did not answer in time")
}

func (v *visit) add(check string, s State, seen, why, do string) {
	v.found = append(v.found, Finding{check, v.of, s, seen, why, do})
}

func (v *visit) good(check, seen string) { v.add(check, Good, seen, "", "") }

func (v *visit) problem(check, seen, why, do string) { v.add(check, Problem, seen, why, do) }

func (v *visit) unknown(check, seen, why, do string) { v.add(check, Unknown, seen, why, do) }
