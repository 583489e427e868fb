package padlockweb_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The tokens of tokenFile.
const (
	reader    = "reader-0123456789abcdef"
	breaker   = "breaker-0123456789abcdef"
	shopOnly  = "shop-only-0123456789abcdef"
	shopBreak = "shop-break-0123456789abcdef"
)

const tokenFile = `
# who  secret  right  prefix
reader     ` + reader + `     read
breaker    ` + breaker + `    break
shop-only  ` + shopOnly + `   read   shop/
shop-break ` + shopBreak + `  break  shop/
`

// site is a Handler on a server, with a sampler that samples when the test says so.
type site struct {
	t       *testing.T
	store   *memstore.Store
	locker  *padlock.Locker
	sampler *sampler.Sampler
	web     *padlockweb.Web
	url     string
	log     *logText
}

// logText is the audit log.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns the records so far. Each line must be JSON.
func (l *logText) lines(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for line := range bytes.Lines(l.b.Bytes()) {
		var record map[string]any
		if err := json.Unmarshal(line, &record); err != nil {
			t.Errorf("the log has the line %q: %v", line, err)
		}
		all = append(all, record)
	}
	return all
}

// has reports whether a record has all the given values: pairs of key and value.
func (l *logText) has(t *testing.T, pairs ...string) bool {
	t.Helper()
	for _, record := range l.lines(t) {
		all := true
		for i := 0; i < len(pairs); i += 2 {
			all = all && record[pairs[i]] == pairs[i+1]
		}
		if all {
			return true
		}
	}
	return false
}

func newSite(t *testing.T, opts ...padlockweb.Option) *site {
	t.Helper()
	return newSampledSite(t, nil, opts...)
}

func newSampledSite(t *testing.T, sampling []sampler.Option, opts ...padlockweb.Option) *site {
	t.Helper()
	s := &site{t: t, store: memstore.New(), log: &logText{}}
	s.locker = padlock.New(s.store)
	s.sampler = sampler.New(s.locker, sampling...)
	s.web = padlockweb.Handler(s.locker, append([]padlockweb.Option{
		padlockweb.Sampler(s.sampler), padlockweb.Logger(slog.New(slog.NewJSONHandler(s.log, nil))),
	}, opts...)...)
	server := httptest.NewServer(s.web)
	s.url = server.URL + "/"
	t.Cleanup(func() {
		s.web.Close()
		server.Close()
		s.locker.Close(t.Context())
	})
	s.sample()
	return s
}

func (s *site) sample() {
	s.t.Helper()
	if _, err := s.sampler.Sample(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// lock locks the names and then takes a sample.
func (s *site) lock(names ...string) (held []*padlock.Lock) {
	s.t.Helper()
	for _, name := range names {
		k, err := s.locker.TryAcquire(s.t.Context(), name, padlock.Label("job of "+name))
		if err != nil {
			s.t.Fatal(err)
		}
		held = append(held, k)
	}
	s.sample()
	return held
}

func (s *site) fence(name string) uint64 {
	s.t.Helper()
	state, err := s.locker.Inspect(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return state.Fence
}

// tokens reads tokenFile from a file.
func tokens(t *testing.T) *padlockweb.Tokens {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(tokenFile), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := padlockweb.OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// answer is a reply that was read whole.
type answer struct {
	*http.Response
	text string
}

// ask sends a request, after the functions of change have changed it. It follows no redirect.
func (s *site) ask(method, path string, body string, change ...func(*http.Request)) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, f := range change {
		f(r)
	}
	reply, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{reply, string(text)}
}

func (s *site) get(path string, change ...func(*http.Request)) answer {
	s.t.Helper()
	return s.ask(http.MethodGet, path, "", change...)
}

// The function with returns a function that adds the token to a request.
func with(token string) func(*http.Request) {
	return func(r *http.Request) {
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
}

// form encodes pairs of key and value.
func form(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values.Encode()
}

// events opens a stream. The function next reads one event.
func (s *site) events(query string, change ...func(*http.Request)) (status int, next func() (event, data string)) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"events?"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range change {
		f(r)
	}
	reply, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { reply.Body.Close() })
	lines := bufio.NewScanner(reply.Body)
	lines.Buffer(nil, 1<<20)
	return reply.StatusCode, func() (event, data string) {
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case key == "event":
				event = value
			case key == "data":
				data += value + "\n"
			case key == "" && event == "beat": // says only that the server lives
				event, data = "", ""
			case key == "" && event != "":
				return event, data
			}
		}
		return "end", ""
	}
}
