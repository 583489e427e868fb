package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/lab/certificate"
)

// A service is object storage that is broken in one way.
type service struct {
	honest *fakes.S3
	behind *httptest.Server // the honest one, over the network

	mu     sync.Mutex
	older  map[string]*httptest.ResponseRecorder // the object before its last write
	writes map[string]int                        // that are under way, by object
}

func isConditional(r *http.Request) bool {
	return r.Method == http.MethodPut && r.Header.Get("If-Match")+r.Header.Get("If-None-Match") != ""
}
func isRead(r *http.Request) bool {
	return r.Method == http.MethodGet && !r.URL.Query().Has("list-type")
}

// ask sends a request without a body to the honest service.
func (s *service) ask(method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.honest.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// checksThenWrites is a gateway that checks the condition of each n-th conditional write itself: it
// reads the object from a service behind it, keeps a journal there, and then writes.
func checksThenWrites(n int64) func(*service, http.ResponseWriter, *http.Request) {
	var count atomic.Int64
	return func(s *service, w http.ResponseWriter, r *http.Request) {
		if isConditional(r) && count.Add(1)%n == 0 {
			etag := s.fetch(r.URL.EscapedPath())
			if want := r.Header.Get("If-Match"); etag != want { // both are empty if there shall be no object
				w.WriteHeader(http.StatusPreconditionFailed)
				return
			}
			for range 8 {
				s.fetch("/soak/journal")
			}
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
		}
		s.honest.ServeHTTP(w, r)
	}
}

// ignoresConditions carries out each n-th conditional write whatever its condition is.
func ignoresConditions(n int64) func(*service, http.ResponseWriter, *http.Request) {
	var count atomic.Int64
	return func(s *service, w http.ResponseWriter, r *http.Request) {
		if isConditional(r) && count.Add(1)%n == 0 {
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
		}
		s.honest.ServeHTTP(w, r)
	}
}

// fetch reads an object over the network, and returns its ETag, or "".
func (s *service) fetch(path string) string {
	reply, err := http.Get(s.behind.URL + path)
	if err != nil {
		return ""
	}
	defer reply.Body.Close()
	return reply.Header.Get("ETag")
}

// staleReads answers each n-th read with what the object was before its last write.
func staleReads(n int64) func(*service, http.ResponseWriter, *http.Request) {
	var count atomic.Int64
	return func(s *service, w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.older == nil {
			s.older = map[string]*httptest.ResponseRecorder{}
		}
		switch old := s.older[r.URL.Path]; {
		case r.Method == http.MethodPut:
			before := s.ask(http.MethodGet, r.URL.EscapedPath())
			s.honest.ServeHTTP(w, r)
			s.older[r.URL.Path] = before
		case isRead(r) && old != nil && count.Add(1)%n == 0:
			for k, v := range old.Header() {
				w.Header()[k] = v
			}
			w.WriteHeader(old.Code)
			w.Write(old.Body.Bytes())
		default:
			s.honest.ServeHTTP(w, r)
		}
	}
}

// refusalAs200 answers 200 to each n-th write that it has refused.
func refusalAs200(n int64) func(*service, http.ResponseWriter, *http.Request) {
	var count atomic.Int64
	return func(s *service, w http.ResponseWriter, r *http.Request) {
		if !isConditional(r) {
			s.honest.ServeHTTP(w, r)
			return
		}
		reply := httptest.NewRecorder()
		s.honest.ServeHTTP(reply, r)
		if reply.Code >= 400 && count.Add(1)%n == 0 {
			w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
			return
		}
		for k, v := range reply.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(reply.Code)
		w.Write(reply.Body.Bytes())
	}
}

// twoForOne carries out a write that a condition forbids if another write of the object is under way,
// as a service of two halves does that agree later.
func twoForOne(s *service, w http.ResponseWriter, r *http.Request) {
	if !isConditional(r) {
		s.honest.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	if s.writes == nil {
		s.writes = map[string]int{}
	}
	if s.writes[r.URL.Path]++; s.writes[r.URL.Path] > 1 {
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
	}
	s.mu.Unlock()
	s.fetch("/soak/journal")
	s.honest.ServeHTTP(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes[r.URL.Path]--
}

// late answers with a clock that is behind, on each n-th reply.
func late(by time.Duration, n int64) func(*service, http.ResponseWriter, *http.Request) {
	var count atomic.Int64
	return func(s *service, w http.ResponseWriter, r *http.Request) {
		if count.Add(1)%n == 0 {
			w.Header().Set("Date", time.Now().Add(-by).UTC().Format(http.TimeFormat))
		}
		s.honest.ServeHTTP(w, r)
	}
}

// laggingList answers a list as it was before.
func laggingList(s *service, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.older == nil {
		s.older = map[string]*httptest.ResponseRecorder{}
	}
	if !r.URL.Query().Has("list-type") {
		s.honest.ServeHTTP(w, r)
		return
	}
	w.Write([]byte("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"))
}

// Each service that is broken on purpose gets the verdict broke, and a question that says how.
func TestBrokenServices(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "soak")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "soak")
	for _, c := range []struct {
		name string
		does func(*service, http.ResponseWriter, *http.Request)
		want string // the beginning of a question that must have broken
	}{
		{"checks, then writes", checksThenWrites(1), ""},
		{"checks, then writes, once in twenty", checksThenWrites(20), ""},
		{"ignores conditions, once in a thousand", ignoresConditions(1000), ""},
		{"stale reads", staleReads(20), ""},
		{"a refusal that is answered as a success, once in a hundred", refusalAs200(100), ""},
		{"two successes for one condition", twoForOne, ""},
		{"a clock ten minutes late", late(10*time.Minute, 1), "clock/now"},
		{"one of two clocks ten minutes late", late(10*time.Minute, 2), ""},
		{"a list that lags", laggingList, "reads/after-write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &service{honest: &fakes.S3{Bucket: "soak"}}
			s.behind = httptest.NewServer(s.honest)
			t.Cleanup(s.behind.Close)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.does(s, w, r) }))
			t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
			mustBreak(t, "s3://soak/locks?skew=0s&endpoint="+srv.URL, c.want)
		})
	}
}

// span is the --for of a broken service.
const span = 12 * time.Second

// mustBreak certifies a store that is broken, until a question breaks.
func mustBreak(t *testing.T, url, want string) {
	t.Helper()
	folder := t.TempDir()
	v := &verification{url: url, span: span, seed: 1, keep: folder, file: filepath.Join(folder, "certificate.json")}
	t.Cleanup(v.wires.host.End)
	early, end := context.WithCancel(t.Context())
	defer end()
	c := newCertification(v, early)
	t.Cleanup(c.suite.host.End)
	c.onBroke = func(q *certificate.Question) {
		if q.Name != "conversation" { // the probes have to find it too
			end()
		}
	}
	if err := c.askAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.paper.Judge()
	for _, q := range c.paper.Questions {
		if q.Verdict == certificate.Broke {
			t.Logf("%s: %.300s", q.Name, strings.Join(q.Seen, "; "))
			if q.Repeat == "" || len(q.Seen) == 0 {
				t.Errorf("%s does not say how it broke, or how to repeat it", q.Name)
			}
		}
	}
	if got := questions(c.paper); c.paper.Verdict != certificate.Broke || want != "" && got[want] != certificate.Broke {
		t.Errorf("the verdict is %s; %q is %q", c.paper.Verdict, want, got[want])
	}
}

// A service that is not broken passes the same probes.
func TestSoundService(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "soak")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "soak")
	srv := httptest.NewServer(&fakes.S3{Bucket: "soak"})
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	v := &verification{url: "s3://soak/locks?skew=0s&endpoint=" + srv.URL, span: 12 * time.Second}
	t.Cleanup(v.wires.host.End)
	c := newCertification(v, t.Context())
	var stores [2]driver.Store
	for i := range stores {
		s, err := openStore(t.Context(), v.url)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores[i] = s
	}
	if err := errors.Join(c.prepare(t.Context()), c.settings(t.Context())); err != nil {
		t.Fatal(err)
	}
	c.probe(t.Context(), newProber(c, stores))
	asked := 0
	for _, q := range c.paper.Questions {
		t.Logf("%s: %s, %v", q.Name, q.Verdict, q.Counts)
		if q.Verdict == certificate.Held {
			asked++
		} else {
			t.Errorf("%+v", q)
		}
	}
	if asked < 7 {
		t.Errorf("%d questions were asked", asked)
	}
}

// The same for servers.
func TestBrokenServers(t *testing.T) {
	t.Run("advisory locks behind a pooler in transaction mode", func(t *testing.T) {
		pool := server.PgBouncer(t, server.Postgres(t, server.PostgresOptions{}), "transaction")
		mustBreak(t, "postgres+advisory"+strings.TrimPrefix(pool.URL(), "postgres"), "open")
	})
	t.Run("a replica that lags behind", func(t *testing.T) {
		primary := server.Redis(t, server.RedisOptions{})
		host, port, _ := strings.Cut(primary.Addr(), ":")
		replica := server.Redis(t, server.RedisOptions{Args: []string{"--replicaof", host + " " + port}})
		mustBreak(t, replica.URL(), "settings/role")
	})
}
