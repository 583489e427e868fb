package padlockweb

import (
	"log/slog"
	"net/http"

	"github.com/padlock-go/padlock/internal/remote"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

// Option configures a Handler.
type Option func(*settings)

type settings struct {
	sampler    *sampler.Sampler
	tokens     *Tokens
	openRead   bool
	broken     bool // Accept or Authorize got nil
	authorize  func(r *http.Request) Visitor
	allowBreak bool
	hosts      remote.Hosts
	logger     *slog.Logger
	streams    int
	place      string
	history    *history.Log
}

// maxStreams is how many pages can show changes live at the same time. One client can have at most a
// quarter of them. Further pages show no changes until they are reloaded.
const maxStreams = 128

// Visitor describes the sender of a request. The function that is given to Authorize returns it.
type Visitor struct {
	Name   string // for the log; a visitor without a name cannot break locks
	Right  Right
	Prefix string // the visitor sees and breaks only names that begin with Prefix
}

// Sampler makes the Handler show what s samples. The caller runs s and stops it. Without this
// option, or if s is nil, the Handler runs a sampler of its own until Close.
func Sampler(s *sampler.Sampler) Option { return func(set *settings) { set.sampler = s } }

// Accept makes the Handler ask for one of the tokens: in the header "Authorization: Bearer", or on
// the login page, which sets a cookie. See ReadWithoutToken. Without Accept, Authorize or
// ReadWithoutToken, nobody sees a lock. After Accept(nil) nobody sees a lock, whatever the other
// options say.
func Accept(tokens *Tokens) Option {
	return func(set *settings) { set.tokens, set.broken = tokens, set.broken || tokens == nil }
}

// ReadWithoutToken lets visitors without a token read everything, even if Accept is given. It is
// for a server that only this machine can reach, or that checks its visitors before the Handler.
// Without it, a visitor needs a token.
func ReadWithoutToken() Option { return func(set *settings) { set.openRead = true } }

// Authorize makes f decide what the sender of a request may do, for servers that know their users
// already. f must be quick and safe for concurrent use. The Handler calls f for each request. If
// the request has opened a stream of events, the Handler calls f again before each event, with the
// same request. With Authorize, tokens are not used. Without it, the tokens decide. After
// Authorize(nil) nobody sees a lock, whatever the other options say.
func Authorize(f func(r *http.Request) Visitor) Option {
	return func(set *settings) { set.authorize, set.broken = f, set.broken || f == nil }
}

// hasRule reports whether an option says who may read.
func (set *settings) hasRule() bool {
	return set.tokens != nil || set.authorize != nil || set.openRead
}

// dropBroken removes all rules if one of them is nil. A nil usually comes from a configuration that
// could not be read. It must not show the locks to anybody, so no other rule makes up for it.
func (set *settings) dropBroken() {
	if set.broken {
		set.tokens, set.authorize, set.openRead = nil, nil, false
	}
}

// noRule is the answer to each visitor if hasRule is false.
const noRule = "Nobody may see the locks here: the server has no rule who may. Its program must give padlockweb.Accept, Authorize or ReadWithoutToken, and none of them with nil."

// AllowBreak lets visitors with RightBreak break locks. Without it the Handler is read-only.
func AllowBreak() Option { return func(set *settings) { set.allowBreak = true } }

// Hosts sets the host names under which browsers reach the Handler, without ports. A request for
// any other host name is refused with status 421. Without this check, an attacker could make a host
// name of his own point at this server, and then a web page of the attacker could read the locks
// (DNS rebinding).
//
// "localhost" and IP addresses are always allowed. Without Hosts, host names are checked only on
// connections that arrive at a loopback address. The name "*" allows every host.
func Hosts(names ...string) Option {
	return func(set *settings) { set.hosts = set.hosts.With(names...) }
}

// Logger sets the logger for the audit. It gets a record at level Info for each break of a lock and
// for each login, and a record at level Warn for each refused request. Names and reasons are
// attributes: use slog.NewJSONHandler or slog.NewTextHandler, which escape control characters. The
// default, which nil leaves in place, discards the records.
func Logger(l *slog.Logger) Option {
	return func(set *settings) {
		if l != nil {
			set.logger = l
		}
	}
}

// History gives the pages a history: the runs of commands that "padlock run --record" has written.
// There is then a page of jobs, the page of a name shows the runs of that name, and /metrics has
// figures about the runs. Without it, or if log is nil, there is no history.
func History(log *history.Log) Option { return func(set *settings) { set.history = log } }

// Place sets the text that names the store on the page: any text without secrets. The default is
// the kind of the store.
func Place(text string) Option { return func(set *settings) { set.place = text } }
