// Package overhttp sends the requests of a store to a service over HTTP. It bounds each request in
// time, and says what a failed one means: if nothing was sent, driver.ErrUnavailable; if the
// service may have carried the request out, driver.ErrUncertain.
//
// It is for authors of stores, most of all for registers; see package register. Programs that use
// locks do not need it.
package overhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A Client sends requests to one service. It is safe for concurrent use.
type Client struct {
	// Base is the URL that the paths of requests are put behind. It ends with a slash.
	Base *url.URL
	// HTTP sends the requests. It must not follow redirections, which would lose the signature.
	// New makes one.
	HTTP *http.Client
	// Sign adds to a request what shows who asks, to its headers or its query; nil adds nothing. If
	// it returns an error, nothing is sent, and the request fails with driver.ErrUnavailable.
	Sign func(q *http.Request, body []byte) error
	// Judge may change the status of a reply before anything else looks at it, for a service
	// that says in the body what other services say by the status; nil changes nothing.
	Judge func(r *Reply)

	left atomic.Int64 // when leave last closed connections, in Unix nanoseconds
}

// New returns a client for the service at base. A nil transport means one like that of
// package net/http, with enough connections for many goroutines.
func New(base *url.URL, transport http.RoundTripper) *Client {
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // a compressed reply may have another ETag
		t.Proxy = proxyFor
		t.MaxIdleConnsPerHost = 64
		// With HTTP/2 all requests share one connection. If it is dead, a request must notice
		// before its time is up, or every request fails until TCP gives the connection up.
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: time.Second}
		transport = t
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{Base: base, HTTP: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// proxyFor returns the proxy that the environment names. The metadata of a machine, with its access
// tokens, are asked for without one: a proxy would answer with those of its own machine, or read
// them.
func proxyFor(q *http.Request) (*url.URL, error) {
	host := q.URL.Hostname()
	if ip := net.ParseIP(host); ip != nil && ip.IsLinkLocalUnicast() || host == "metadata.google.internal" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(q)
}

// Loopback reports whether a host of a URL is this machine. Secrets go to other hosts over https
// only.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// Close closes the idle connections.
func (c *Client) Close() error {
	c.HTTP.CloseIdleConnections()
	return nil
}

// A Request is what a Client sends. The zero Request is a GET of Base.
type Request struct {
	Method string // "" is GET
	Path   string // behind Base, not escaped
	Query  url.Values
	Header map[string]string
	Body   []byte
}

// A Reply is what the service has answered.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

const maxReply = 8 << 20

// Do sends a request once, and returns the reply with whatever status it has. An error is
// driver.ErrUnavailable if nothing was sent, and driver.ErrUncertain otherwise.
func (c *Client) Do(ctx context.Context, r Request) (*Reply, error) {
	out, err := c.send(ctx, r)
	return out, storekit.Failure(err)
}

// send sends a request. Its error is a storekit.NoReply.
func (c *Client) send(ctx context.Context, r Request) (*Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, storekit.Patience)
	defer cancel()
	reply, err := c.Stream(ctx, r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if err != nil {
		return nil, &storekit.NoReply{Err: err}
	}
	out := &Reply{Status: reply.StatusCode, Header: reply.Header, Body: data}
	if watch, ok := ctx.Value(watchKey{}).(func(*url.URL, Request, Reply)); ok {
		watch(c.urlOf(r), r, *out)
	}
	if c.Judge != nil {
		c.Judge(out)
	}
	return out, nil
}

// Stream sends a request once, and returns when the reply begins. The caller must close the Body of
// the reply. If the status says that another server may give a better answer (such as 503), this
// also closes the idle connections. Only ctx bounds the time. An error is a storekit.NoReply.
func (c *Client) Stream(ctx context.Context, r Request) (*http.Response, error) {
	u := c.urlOf(r)
	q, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, &storekit.NoReply{Err: err, Unsent: true}
	}
	if q.Method != http.MethodGet {
		q.GetBody = nil // net/http must not repeat a request that may have arrived
	}
	for name, value := range r.Header {
		q.Header.Set(name, value)
	}
	if c.Sign != nil {
		if err := c.Sign(q, r.Body); err != nil {
			// Only the text: whatever Sign calls it, another try may find the key.
			return nil, &storekit.NoReply{Err: errors.New(err.Error()), Unsent: true}
		}
	}
	reply, err := c.HTTP.Do(q)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			failed.URL = u.String() // without a secret that Sign has put into the query
		}
		var dial *net.OpError
		return nil, &storekit.NoReply{Err: err, Unsent: errors.As(err, &dial) && dial.Op == "dial"}
	}
	if isWrongServer(reply.StatusCode) {
		reply.Body = &lastBody{reply.Body, c.leave}
	}
	return reply, nil
}

func (c *Client) urlOf(r Request) *url.URL {
	u := *c.Base
	u.Path, u.RawQuery = u.Path+r.Path, r.Query.Encode()
	return &u
}

type watchKey struct{}

// Watch returns a context that tells watch of the requests that are made with it, and of their
// replies. A program uses it to record what a service answers. A request is told as it was before it
// was signed, once its reply is here; requests for a login and those of [Client.Stream] are not told.
// The goroutine of the request calls watch, so several may do so at once. watch must not change what
// it gets.
func Watch(ctx context.Context, watch func(u *url.URL, r Request, reply Reply)) context.Context {
	return context.WithValue(ctx, watchKey{}, watch)
}

// isWrongServer reports whether a status means that another server, or another login, may give a
// better answer. Behind a load balancer, a kept connection leads to the same server for ever, even
// to one that gets no new connections any more. A client certificate belongs to its connection.
func isWrongServer(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusMisdirectedRequest,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// A lastBody is the body of a reply after which the client leaves the server.
type lastBody struct {
	io.ReadCloser
	leave func()
}

// Close closes the body. If all of it was read, its connection is idle now.
func (b *lastBody) Close() error {
	err := b.ReadCloser.Close()
	b.leave()
	return err
}

// leave closes the idle connections, so that the next request makes a new one. It does so at most
// once a second: a service that has too much to do must not get more connections on top.
func (c *Client) leave() {
	last, now := c.left.Load(), time.Now().UnixNano()
	if now-last >= int64(time.Second) && c.left.CompareAndSwap(last, now) {
		c.HTTP.CloseIdleConnections()
	}
}

// Read sends a request that changes nothing. It repeats the request if there is no reply, or if the
// service is too busy to answer. An error is driver.ErrUnavailable.
func (c *Client) Read(ctx context.Context, r Request) (*Reply, error) {
	for n := 0; ; n++ {
		reply, err := c.send(ctx, r)
		if err == nil && !reply.Unsure() {
			return reply, nil
		}
		if err == nil {
			err = errors.New(reply.text())
		}
		if n == 4 || ctx.Err() != nil || !storekit.Sleep(ctx, 20*time.Millisecond<<n+rand.N(50*time.Millisecond<<n)) {
			return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
	}
}

// Unsure reports whether the status leaves open what the service has done: it has failed, or has
// too much to do.
func (r *Reply) Unsure() bool {
	switch r.Status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true
	}
	return r.Status >= 500 && r.Status != http.StatusNotImplemented
}

// Err returns nil if the status is 2xx, driver.ErrUncertain if the status leaves open what was
// done, and driver.ErrUnavailable otherwise.
func (r *Reply) Err() error {
	if r.Status >= 200 && r.Status < 300 {
		return nil
	}
	if r.Unsure() {
		return fmt.Errorf("%w: %s", driver.ErrUncertain, r.text())
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, r.text())
}

func (r *Reply) text() string {
	said := fmt.Sprintf("%.200q", r.Body)
	var answer struct{ Message string }      // as Kubernetes and DynamoDB answer
	var other struct{ Code, Message string } // as object storage answers, in XML
	if json.Unmarshal(r.Body, &answer) != nil && xml.Unmarshal(r.Body, &other) == nil && other.Message != "" {
		answer.Message = other.Code + ": " + other.Message
	}
	if answer.Message != "" {
		// After a wrong signature, AWS may repeat what was signed, the session's token too.
		first, _, _ := strings.Cut(answer.Message, "\n")
		said = fmt.Sprintf("%.500q", first)
	}
	return fmt.Sprintf("the service answers %d %s: %s", r.Status, http.StatusText(r.Status), said)
}

// IfMatch returns the header of a conditional write: the thing must have this ETag, or must not
// exist if version is "".
func IfMatch(version string) map[string]string {
	if version == "" {
		return map[string]string{"If-None-Match": "*"}
	}
	return map[string]string{"If-Match": version}
}

// Date returns the time at which the service has replied, in whole seconds, rounded down.
func (r *Reply) Date() (time.Time, error) {
	t, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		return t, fmt.Errorf("%w: the reply of the service has no Date", driver.ErrUnavailable)
	}
	return t, nil
}
