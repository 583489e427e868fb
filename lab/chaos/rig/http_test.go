package rig

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/lab/soak/linear"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/stores/memstore"
)

// full runs the clients over HTTP for longer, with all mutants; `make soak-http` sets it. Without
// it there is one short run of each kind, because every client is a process of its own.
var full = flag.Bool("full", false, "run all mutants of clients over HTTP")

// TestClientsOverHTTP runs clients of all kinds against a server in this process. A server or a
// client that breaks a rule must be seen, and those that break none must not.
func TestClientsOverHTTP(t *testing.T) {
	for _, name := range []string{"python3", "node", "curl", "setsid"} {
		if _, err := exec.LookPath(name); err != nil && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
	}
	for _, c := range []struct {
		name   string
		kinds  []string
		handle func(http.Handler) http.Handler
		load   func(*soak.Load)
		stops  bool     // the only faults are that workers are stopped for a while
		seen   []string // one of these must be seen; nil: nothing
		long   bool
	}{
		{name: "sound", kinds: kinds, load: busy},
		{name: "a server that takes all clients for one", kinds: kinds, load: busyWriters, handle: oneToken, seen: []string{"I1", "I2"}},
		{name: "sound clients that are stopped", kinds: []string{kindGo, kindPython, kindPython, kindPython}, load: slow, stops: true, long: true},
		{name: "a client that counts valid_ms from the answer", kinds: []string{kindGo, kindLate, kindLate, kindLate}, load: slow, stops: true, seen: []string{"I1"}, long: true},
		{name: "a server that confirms releases and forgets them", kinds: kinds, load: busy, handle: noRelease, seen: []string{"I6", "I8"}, long: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && !*full {
				t.Log("this runs with -full only")
				return
			}
			row := Row{Name: c.name, build: overHTTP(c.kinds, serveHere(c.handle))}
			row.uncovered = []string{"kill worker", "stop worker"}
			if c.stops {
				row.uncovered = []string{"kill worker"}
				for _, f := range renamed(networkFaults([][]*server.Proxy{{nil}}), clientsWay) {
					row.uncovered = append(row.uncovered, f.Kind)
				}
			}
			broken, missing := violations(t, row, c.load)
			if missing != nil && c.seen == nil {
				t.Error(missing) // to show a violation, the clients that get the lock may do
			}
			if c.seen == nil && len(broken) > 0 || c.seen != nil && !slices.ContainsFunc(c.seen, func(i string) bool { return broken[i] > 0 }) {
				t.Errorf("the violations are %v, want %v", broken, c.seen)
			}
		})
	}
}

// busy makes the workers compete for few names.
func busy(l *soak.Load) { l.Hot, l.Warm, l.ToHot, l.Own = 1, 4, 50, 5 }

// busyWriters makes all of them writers. A token that has a shared lock cannot take an exclusive one.
func busyWriters(l *soak.Load) { busy(l); l.Shared, l.Convert = 0, 0 }

// slow makes them wait for each other for a second or so.
func slow(l *soak.Load) {
	l.Hot, l.Warm, l.ToHot, l.Shared, l.Try, l.Own, l.Slots, l.Short, l.Epoch = 1, 1, 90, 0, 0, 0, 0, 0, time.Hour
	l.MinHold, l.MaxHold, l.MaxTTL = 200*time.Millisecond, 800*time.Millisecond, 1500*time.Millisecond
}

// violations runs a row and counts its violations. Its error says which clients got no lock.
func violations(t *testing.T, row Row, load func(*soak.Load)) (map[string]int, error) {
	t.Helper()
	build, made := row.build, &setup{}
	row.build = func(s *Site) (set *setup, err error) {
		if set, err = build(s); err == nil {
			set.load = func(l *soak.Load) { overHTTPLoad(l); load(l) }
			made = set
		}
		return set, err
	}
	r, out, err := row.Run(t.Context(), Options{Seed: 3, For: 4 * time.Second, Tail: time.Second, Every: 300 * time.Millisecond, Lanes: 2, Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	missing := made.allMet(out, func(text string) { t.Log(text) })
	p, err := linear.Judge(r, out, "", 20*time.Second)
	var text strings.Builder
	p.Write(&text)
	t.Log(text.String())
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Verdict.Illegal; n > 0 {
		p.Violations["porcupine"] = n
	}
	return p.Violations, missing
}

// serveHere returns two servers of one store in this process. The function handle may break them.
func serveHere(handle func(http.Handler) http.Handler) func(*Site) *serving {
	return func(s *Site) *serving {
		out, store := &serving{log: func() string { return "" }}, memstore.New()
		for range 2 {
			api := padlockapi.Handler(store.Open(), padlockapi.WithoutToken())
			handler := http.Handler(api)
			if handle != nil {
				handler = handle(handler)
			}
			srv := httptest.NewServer(handler)
			s.host.Cleanup(func() {
				srv.CloseClientConnections()
				srv.Close()
				api.Close()
			})
			out.addrs = append(out.addrs, srv.Listener.Addr().String())
		}
		return out
	}
}

// oneToken gives all clients the same token. Each sees its own in the answers.
func oneToken(h http.Handler) http.Handler {
	const same = "the-token-of-everybody"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var body struct{ Token string }
		if err != nil || json.Unmarshal(text, &body) != nil || body.Token == "" {
			r.Body = io.NopCloser(bytes.NewReader(text))
			h.ServeHTTP(w, r)
			return
		}
		changed := bytes.ReplaceAll(text, []byte(body.Token), []byte(same))
		again := r.Clone(r.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, again)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(rec.Code)
		w.Write(bytes.ReplaceAll(rec.Body.Bytes(), []byte(same), []byte(body.Token)))
	})
}

// noRelease confirms every third release without carrying it out.
func noRelease(h http.Handler) http.Handler {
	n := make(chan int, 1)
	n <- 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := <-n
		n <- i + 1
		if r.URL.Path != "/v1/release" || i%3 > 0 {
			h.ServeHTTP(w, r)
			return
		}
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"outcome":"released"}`)
	})
}
