package padlockapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The tokens of locks in the tests.
const (
	one   = "token-one-0123456789"
	two   = "token-two-0123456789"
	three = "token-three-0123456789"
)

// answer is what a client gets.
type answer struct {
	status int
	fields map[string]any
	head   http.Header
	text   string
}

func (a answer) number(key string) int64 {
	n, _ := a.fields[key].(json.Number)
	v, err := n.Int64()
	if err != nil {
		return -1
	}
	return v
}

func (a answer) word(key string) string { s, _ := a.fields[key].(string); return s }

// want fails the test unless the answer has the status.
func (a answer) want(t *testing.T, what string, status int) answer {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: status %d, want %d: %s", what, a.status, status, a.text)
	}
	return a
}

// send sends a body and checks the answer against the OpenAPI document. The status is 0 if there is
// no answer.
func send(t *testing.T, h http.Handler, path, body string, with ...func(*http.Request)) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, f := range with {
		f(r)
	}
	rw := &recorder{header: http.Header{}}
	h.ServeHTTP(rw, r)
	a := answer{status: rw.status, head: rw.header, text: rw.body.String()}
	if a.status == 0 {
		return a
	}
	d := json.NewDecoder(bytes.NewReader(rw.body.Bytes()))
	d.UseNumber()
	if err := d.Decode(&a.fields); err != nil {
		t.Fatalf("%s: the answer is not JSON: %q", path, a.text)
	}
	checkAnswer(t, path, r, a)
	return a
}

// recorder is a ResponseWriter. Unlike that of httptest, it tells whether there was an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// body returns a body with the name "a" and the token, and more fields as JSON without braces.
func body(token string, more ...string) string {
	return fmt.Sprintf(`{"name":"a","token":%q%s}`, token, strings.Join(append([]string{""}, more...), ","))
}

// newAPI returns a Handler on a store in memory.
func newAPI(t *testing.T, opts ...Option) (*API, driver.Store) {
	t.Helper()
	store := memstore.New()
	return handlerOn(t, store, opts...), store
}

func handlerOn(t *testing.T, store driver.Store, opts ...Option) *API {
	t.Helper()
	if len(opts) == 0 {
		opts = []Option{WithoutToken()}
	}
	a := Handler(store, opts...)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return a
}

// waitOf returns the wait for the name "a" and the token, or nil.
func waitOf(a *API, token string) *wait {
	a.waits.mu.Lock()
	defer a.waits.mu.Unlock()
	return a.waits.table[newWaitID("", "a", token)]
}

// hooked is a store that calls functions in place of requests.
type hooked struct {
	driver.Store
	acquire func(ctx context.Context, r driver.Request) (driver.Grant, error)
	release func(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error)
	extend  func(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error)
}

func (h *hooked) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if h.acquire == nil {
		return h.Store.Acquire(ctx, r)
	}
	return h.acquire(ctx, r)
}

func (h *hooked) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if h.release == nil {
		return h.Store.Release(ctx, name, token, keep)
	}
	return h.release(ctx, name, token, keep)
}

func (h *hooked) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if h.extend == nil {
		return h.Store.Extend(ctx, name, token, ttl)
	}
	return h.extend(ctx, name, token, ttl)
}

// inBackground sends a body, and returns a channel with the answer.
func inBackground(t *testing.T, h http.Handler, path, body string, with ...func(*http.Request)) <-chan answer {
	got := make(chan answer, 1)
	go func() { got <- send(t, h, path, body, with...) }()
	return got
}

// cancellable makes the client go away when the returned function is called.
func cancellable() (with func(*http.Request), cancel func()) {
	ctx, cancel := context.WithCancel(context.Background())
	return func(r *http.Request) { *r = *r.WithContext(ctx) }, cancel
}

// records is a logger that keeps its records.
type records struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *records) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(r, nil)) }

// has reports whether a record has all of the pairs of keys and values.
func (r *records) has(pairs ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.text.String()) {
		found := true
		for i := 0; i < len(pairs); i += 2 {
			found = found && strings.Contains(line, fmt.Sprintf("%q:%s", pairs[i], pairs[i+1]))
		}
		if found {
			return true
		}
	}
	return false
}

func (r *records) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
