package overhttp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/overhttp"
)

// service answers as the path says, and counts requests.
type service struct{ requests atomic.Int64 }

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.requests.Add(1)
	body, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/base/lost":
		panic(http.ErrAbortHandler)
	case "/base/busy-once":
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "/base/busy":
		w.WriteHeader(http.StatusTooManyRequests)
	case "/base/refused":
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "you may not")
	case "/base/moved":
		http.Redirect(w, r, "/base/", http.StatusTemporaryRedirect)
	default:
		io.WriteString(w, r.Header.Get("If-Match")+r.Header.Get("If-None-Match")+string(body)+r.URL.RawQuery)
	}
}

func start(t *testing.T) (*overhttp.Client, *service) {
	t.Helper()
	s := &service{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL + "/base/")
	if err != nil {
		t.Fatal(err)
	}
	c := overhttp.New(base, nil)
	t.Cleanup(func() { c.Close() })
	return c, s
}

// The outcome of a request: what the service may have done, and how often it was asked.
func TestOutcomes(t *testing.T) {
	for path, want := range map[string]struct {
		do, read  error
		doN, getN int64
	}{
		"fine":      {nil, nil, 1, 1},
		"lost":      {driver.ErrUncertain, driver.ErrUnavailable, 1, 5},
		"busy":      {driver.ErrUncertain, driver.ErrUnavailable, 1, 5},
		"busy-once": {driver.ErrUncertain, nil, 1, 2},
		"refused":   {driver.ErrUnavailable, driver.ErrUnavailable, 1, 1},
		"moved":     {driver.ErrUnavailable, driver.ErrUnavailable, 1, 1},
	} {
		c, s := start(t)
		ask := func(method func(context.Context, overhttp.Request) (*overhttp.Reply, error), q overhttp.Request) error {
			s.requests.Store(0)
			r, err := method(t.Context(), q)
			if err == nil {
				err = r.Err()
			}
			return err
		}
		err := ask(c.Do, overhttp.Request{Method: http.MethodPut, Path: path, Body: []byte("x")})
		if !errors.Is(err, want.do) || (err == nil) != (want.do == nil) || s.requests.Load() != want.doN {
			t.Errorf("Do of %s: %v after %d requests, want %v after %d", path, err, s.requests.Load(), want.do, want.doN)
		}
		err = ask(c.Read, overhttp.Request{Path: path})
		// A lost GET is repeated once more by package net/http.
		if n := s.requests.Load(); !errors.Is(err, want.read) || errors.Is(err, driver.ErrUncertain) || n < want.getN || n > 2*want.getN {
			t.Errorf("Read of %s: %v after %d requests, want %v after %d", path, err, n, want.read, want.getN)
		}
	}
}

// A request that certainly has not been sent is unavailable: nobody listens, or it was not signed.
func TestUnsent(t *testing.T) {
	c, s := start(t)
	for _, kind := range []error{errors.New("the metadata service"), driver.ErrInvalid, driver.ErrUncertain} {
		c.Sign = func(*http.Request, []byte) error { return fmt.Errorf("%w: no key", kind) }
		_, put := c.Do(t.Context(), overhttp.Request{Method: http.MethodPut})
		_, get := c.Read(t.Context(), overhttp.Request{})
		for _, err := range []error{put, get} {
			if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "no key") {
				t.Errorf("without a key: %v", err)
			}
		}
	}
	if n := s.requests.Load(); n != 0 {
		t.Errorf("%d requests without a key", n)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	base, _ := url.Parse(gone.URL + "/")
	if _, err := overhttp.New(base, nil).Do(t.Context(), overhttp.Request{Method: http.MethodPut}); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := overhttp.New(base, nil).Read(ctx, overhttp.Request{}); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("canceled: %v", err)
	}
}

// A key may stand in the query. No error shows it.
func TestSecretInQuery(t *testing.T) {
	c, _ := start(t)
	c.Sign = func(q *http.Request, _ []byte) error { q.URL.RawQuery += "&sig=canary"; return nil }
	r, err := c.Do(t.Context(), overhttp.Request{Query: url.Values{"q": {"1"}}})
	if err != nil || string(r.Body) != "q=1&sig=canary" {
		t.Fatalf("%v, %v", r, err)
	}
	_, put := c.Do(t.Context(), overhttp.Request{Method: http.MethodPut, Path: "lost"})
	_, get := c.Read(t.Context(), overhttp.Request{Path: "lost"})
	for _, err := range []error{put, get} {
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "/base/lost") {
			t.Errorf("a lost reply: %v", err)
		}
	}
}

// An error repeats what the service says, without the JSON or XML around it. Of several lines it
// repeats the first: after a wrong signature, the others have the headers that AWS has signed.
func TestMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"Status","metadata":{},"message":"may not list"}`:                           `403 Forbidden: "may not list"`,
		`{"message":"no match.\n\nThe Canonical String is\n'POST\nx-amz-security-token:AB"}`: `403 Forbidden: "no match."`,
		`{"message":""}`: `403 Forbidden: "{`,
		`<Error/>`:       `403 Forbidden: "<Error/>"`,
		"\ufeff<?xml version=\"1.0\"?><Error><Code>NoRight</Code><Message>may not list\nAB</Message><Detail>AB</Detail></Error>": `403 Forbidden: "NoRight: may not list"`,
	} {
		r := overhttp.Reply{Status: http.StatusForbidden, Body: []byte(body)}
		if err := r.Err(); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "AB") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// A conditional write has one of two headers.
func TestIfMatch(t *testing.T) {
	c, _ := start(t)
	for version, want := range map[string]string{"": "*", `"1"`: `"1"`} {
		r, err := c.Do(t.Context(), overhttp.Request{Method: http.MethodPut, Path: "a/b%2Fc", Query: url.Values{"q": {"1"}}, Header: overhttp.IfMatch(version), Body: []byte("body")})
		if err != nil || string(r.Body) != want+"bodyq=1" {
			t.Errorf("%q: %v, %v", version, r, err)
			continue
		}
		if _, err := r.Date(); err != nil {
			t.Error(err)
		}
		r.Header.Del("Date")
		if _, err := r.Date(); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("without a Date: %v", err)
		}
	}
}

// A link is a connection that can die: what is sent is lost, and nothing arrives any more.
type link struct {
	net.Conn
	dead atomic.Bool
}

func (l *link) Write(p []byte) (int, error) {
	if l.dead.Load() {
		return len(p), nil
	}
	return l.Conn.Write(p)
}

// A pipeListener accepts connections in memory.
type pipeListener struct {
	net.Listener
	conns chan net.Conn
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.conns) })
	return l.Listener.Close()
}

// With HTTP/2, all requests share a connection. If it is dead, a read notices, and goes on with
// another one.
func TestDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("the protocol is %s", r.Proto)
			}
		}))
		l := &pipeListener{Listener: server.Listener, conns: make(chan net.Conn)}
		server.Listener, server.EnableHTTP2 = l, true
		server.StartTLS()
		defer server.Close()
		c := overhttp.New(&url.URL{Scheme: "https", Host: "example.com", Path: "/"}, nil)
		defer c.Close()
		var last *link
		tr := c.HTTP.Transport.(*http.Transport)
		tr.Proxy, tr.TLSClientConfig = nil, &tls.Config{RootCAs: x509.NewCertPool()}
		tr.TLSClientConfig.RootCAs.AddCert(server.Certificate())
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
			there, here := net.Pipe()
			l.conns <- there
			last = &link{Conn: here}
			return last, nil
		}
		if _, err := c.Read(t.Context(), overhttp.Request{}); err != nil {
			t.Fatal(err)
		}
		last.dead.Store(true)
		start := time.Now()
		if _, err := c.Read(t.Context(), overhttp.Request{}); err != nil || time.Since(start) > storekit.Patience {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A watcher sees a request without what Sign adds, and the reply before Judge changes it. It sees no
// request that has no reply, and none of another context.
func TestWatch(t *testing.T) {
	c, _ := start(t)
	c.Sign = func(q *http.Request, _ []byte) error {
		q.Header.Set("Authorization", "secret")
		q.URL.RawQuery = "signature=secret"
		return nil
	}
	c.Judge = func(r *overhttp.Reply) { r.Status = http.StatusTeapot }
	var seen []string
	ctx := overhttp.Watch(t.Context(), func(u *url.URL, r overhttp.Request, reply overhttp.Reply) {
		seen = append(seen, fmt.Sprint(r.Method, " ", u.RequestURI(), " ", r.Header, " ", string(r.Body), ": ", reply.Status, " ", string(reply.Body)))
	})
	asked := overhttp.Request{Method: http.MethodPut, Path: "a b", Query: url.Values{"x": {"1"}}, Header: overhttp.IfMatch("7"), Body: []byte("new")}
	reply, err := c.Do(ctx, asked)
	if err != nil || reply.Status != http.StatusTeapot {
		t.Fatal(reply, err)
	}
	if _, err := c.Do(t.Context(), asked); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(ctx, overhttp.Request{Path: "lost"}); err == nil {
		t.Error("a lost reply is no error")
	}
	if want := "PUT /base/a%20b?x=1 map[If-Match:7] new: 200 7newsignature=secret"; len(seen) != 1 || seen[0] != want {
		t.Errorf("seen: %q, want %q", seen, want)
	}
}
