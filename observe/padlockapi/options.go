package padlockapi

import (
	"log/slog"
	"net/http"

	"github.com/padlock-go/padlock/internal/remote"
)

// Option configures a Handler.
type Option func(*settings)

type settings struct {
	tokens     Tokens
	authorize  func(r *http.Request) Visitor
	open       bool // WithoutToken
	broken     bool // Accept or Authorize got nil
	allowBreak bool
	hosts      remote.Hosts
	logger     *slog.Logger
	maxWaits   int
	maxNames   int
}

// Visitor describes the sender of a request. The zero Visitor may do nothing.
type Visitor struct {
	Name    string // for the log; a visitor without a name cannot break locks
	Read    bool   // status and list
	Acquire bool   // acquire, extend and release
	Break   bool
	Ask     bool // ask; without it, a visitor cannot take or end the lock that keeps a question either

	// Prefix bounds the rights to the names that begin with it. If Tenant is true, the visitor has
	// names of its own: it does not send the prefix, and the Handler puts the prefix before each
	// name. A tenant without a prefix may do nothing. No prefix of a tenant may be the beginning of
	// another one's: see padlock.WithPrefix. padlockweb.Tokens checks that; with Authorize, f does.
	Prefix string
	Tenant bool
}

// Tokens knows the secrets of visitors. A *padlockweb.Tokens is one; the rights are in the third
// field of its file.
type Tokens interface {
	// Refresh is called before each Find. Its error is logged.
	Refresh() error

	// Find returns the visitor with the given secret. The rights are words separated by commas:
	// read, acquire, break, ask. The time that Find takes must not depend on the secret. Find must be
	// safe for concurrent use.
	Find(secret string) (name, rights, prefix string, tenant, ok bool)
}

// Accept makes the Handler ask for one of the tokens in the header "Authorization: Bearer". After
// Accept(nil) nobody may do anything, whatever the other options say. Without it, no token is
// known.
func Accept(tokens Tokens) Option {
	return func(s *settings) { s.tokens, s.broken = tokens, s.broken || tokens == nil }
}

// Authorize makes f decide what the sender of a request may do, for servers that know their clients
// already. f must be safe for concurrent use. With Authorize, tokens are not used. After
// Authorize(nil) nobody may do anything, whatever the other options say. Without it, the tokens
// decide.
func Authorize(f func(r *http.Request) Visitor) Option {
	return func(s *settings) { s.authorize, s.broken = f, s.broken || f == nil }
}

// WithoutToken lets every visitor without a token read, acquire and ask. It is for a server that
// only this machine can reach. By default a visitor without a token may do nothing.
func WithoutToken() Option { return func(s *settings) { s.open = true } }

// AllowBreak lets visitors with a name and the right to break end the holds of others. By default
// nobody can do that.
func AllowBreak() Option { return func(s *settings) { s.allowBreak = true } }

// Hosts sets the host names under which clients reach the Handler, without ports; see
// padlockweb.Hosts, which protects browsers in the same way. "localhost" and IP addresses are
// always allowed. Without Hosts, host names are checked only on connections that arrive at a
// loopback address. The name "*" allows every host.
func Hosts(names ...string) Option {
	return func(s *settings) { s.hosts = s.hosts.With(names...) }
}

// Logger sets the logger for the audit. It gets a record at level Info for each grant and each
// break, and at level Warn for each request that was refused because of rights. Names are
// attributes: use slog.NewJSONHandler or slog.NewTextHandler, which escape control characters. The
// default discards the records, and nil leaves the default.
func Logger(l *slog.Logger) Option {
	return func(s *settings) {
		if l != nil {
			s.logger = l
		}
	}
}

// DefaultMaxWaits is the limit if MaxWaits is not given.
const DefaultMaxWaits = 2048

// maxNames is how many locks one visitor can hold at the same time, as far as a Handler has granted
// or extended them.
const maxNames = 10_000

// MaxWaits limits how many callers can wait at the same time. One visitor has at most half of these
// places, but always at least one. If n is not above 0, the default stays.
func MaxWaits(n int) Option {
	return func(s *settings) {
		if n > 0 {
			s.maxWaits = n
		}
	}
}
