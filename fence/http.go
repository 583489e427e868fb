package fence

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/padlock-go/padlock"
)

// Header is the HTTP header that carries a fence, as a decimal number. In a request it is the
// sender's fence. In a response of status 412 it is the greatest fence that the server has seen.
const Header = "Padlock-Fence"

// SetHeader puts fence into h.
func SetHeader(h http.Header, fence uint64) { h.Set(Header, strconv.FormatUint(fence, 10)) }

// FromHeader returns the fence in h. It returns ErrMissing if there is none, and ErrMalformed if
// the header is not exactly one number that can be a fence.
func FromHeader(h http.Header) (uint64, error) {
	switch values := h.Values(Header); len(values) {
	case 0:
		return 0, ErrMissing
	case 1:
		return parse(values[0])
	default:
		return 0, fmt.Errorf("%w: %s is there %d times", ErrMalformed, Header, len(values))
	}
}

// parse reads a fence as SetHeader writes it.
func parse(text string) (uint64, error) {
	fence, err := strconv.ParseUint(text, 10, 64)
	if err != nil || fence == 0 || fence >= fenceLimit || strconv.FormatUint(fence, 10) != text {
		return 0, fmt.Errorf("%w: %.40q", ErrMalformed, text)
	}
	return fence, nil
}

// Transport is an http.RoundTripper that adds the fence of a lock to requests. It finds the lock in
// the context of the request. So give the request the context of the lock, such as the one that
// Locker.Do passes to its function. If locks are nested, Transport uses the innermost. A request
// without such a lock, or with the header already set, is sent unchanged.
type Transport struct {
	Base http.RoundTripper // nil means http.DefaultTransport
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if fence, ok := padlock.FenceFrom(req.Context()); ok && req.Header.Get(Header) == "" {
		req = req.Clone(req.Context()) // a RoundTripper must not change its request
		if req.Header == nil {
			req.Header = make(http.Header)
		}
		SetHeader(req.Header, fence)
	}
	if t.Base != nil {
		return t.Base.RoundTrip(req)
	}
	return http.DefaultTransport.RoundTrip(req)
}

// CheckResponse returns a *StaleError if resp is the response of a Middleware to a request whose
// fence is stale. Otherwise it returns nil. It reads only the headers of resp and of resp.Request.
func CheckResponse(resp *http.Response) error {
	if resp.StatusCode != http.StatusPreconditionFailed || resp.Request == nil {
		return nil
	}
	mine, err := FromHeader(resp.Request.Header)
	if err != nil {
		return nil // the request had no fence, so the 412 has another reason
	}
	seen, err := FromHeader(resp.Header)
	if err != nil || seen <= mine {
		return nil
	}
	return &StaleError{resp.Request.URL.Path, mine, seen}
}

// Middleware guards HTTP handlers against requests of old holders. It runs each handler inside
// Register.Do, with the name and the fence of the request. So two handlers with different fences of
// a name never run at the same time in this process. After a handler has run for one fence,
// requests with smaller fences are refused.
//
// The Register is in the memory of this process. If a load balancer spreads the requests over
// several servers, each server knows only the fences that it has seen itself. A server that was
// restarted knows none. If you need more than that, guard the data with SQL or RedisHash.
//
// The responses of the guard are:
//
//	400 Bad Request            the header is malformed
//	412 Precondition Failed    the fence is stale; the header has the greatest fence
//	428 Precondition Required  there is no fence, and Optional is not set
//	503 Service Unavailable    the request ended while it waited for a handler with a smaller fence
//
// A request without a fence passes unguarded if its method is safe (GET, HEAD, OPTIONS, TRACE).
// Such a request writes nothing, and the CORS preflight of a browser cannot have a fence. A request
// with a fence is always guarded.
//
// Set the fields before the first use. A fence is not a secret and does not prove an identity: the
// server must check first whether the client may send the request at all.
type Middleware struct {
	// Register remembers the fences. Middlewares that guard the same resource must use the same
	// Register. If Register is nil, the Middleware makes its own, for at most 100,000 names.
	Register *Register

	// Name returns the name of the thing that a request writes. The Register uses that name. If
	// Name is nil, the path of the URL is used. The client chooses that path: see Register.Max.
	Name func(*http.Request) string

	// Optional lets all requests without a fence pass, unguarded.
	Optional bool

	once sync.Once
	own  Register
}

// Wrap returns a handler that checks the fence of each request, as the Middleware says, and calls
// the given handler only if the request may pass.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fence, err := FromHeader(req.Header)
		if errors.Is(err, ErrMissing) && (m.Optional || safe(req.Method)) {
			next.ServeHTTP(w, req)
			return
		}
		if err == nil {
			err = m.register().Do(req.Context(), m.name(req), fence, func() error {
				next.ServeHTTP(w, req)
				return nil
			})
		}
		if err != nil {
			m.refuse(w, err)
		}
	})
}

// safe reports whether a method changes nothing, by RFC 9110.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// ownMax bounds the names of a Middleware's own Register.
const ownMax = 100_000

func (m *Middleware) register() *Register {
	if m.Register != nil {
		return m.Register
	}
	m.once.Do(func() { m.own.Max = ownMax })
	return &m.own
}

func (m *Middleware) name(req *http.Request) string {
	if m.Name != nil {
		return m.Name(req)
	}
	return req.URL.Path
}

func (m *Middleware) refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	var stale *StaleError
	switch {
	case errors.As(err, &stale):
		status = http.StatusPreconditionFailed
		SetHeader(w.Header(), stale.Seen)
	case errors.Is(err, ErrMissing):
		status = http.StatusPreconditionRequired
	case errors.Is(err, ErrMalformed):
		status = http.StatusBadRequest
	}
	http.Error(w, err.Error(), status)
}
