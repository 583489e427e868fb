// Package load tests a session library under load. Many requests with the same cookie run at once.
// Each reads the session, works for a while, and sets its own key. The result is the number of keys
// that the session has afterwards.
//
// It is for finding lost writes in a program. To check the contract of a store, use package
// sessiontest instead.
//
// [Client.Run] is the client. It works with every server that serves these paths, in Go or in
// another language. [Handler] is such a server, made with package session:
//
//	/start                     makes the session and sets the cookie
//	/set?key=K&work=25ms       reads the session, works, sets K to 1
//	/add?key=K&work=0s         sets K to its value + 1
//	/incr?key=K                adds 1 to K, atomically
//	/read?work=25ms            reads the session and works
//	/keys                      lists the keys, one in each line
//	/value?key=K               the number at K
//	/logout                    ends the session
package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Client is one browser. It keeps one cookie, and can send many requests at once. It is safe for
// concurrent use after Start.
type Client struct {
	Base   func(request int) string // the address of the server for a request; several servers may share the session
	Cookie *http.Cookie             // the session's cookie, set by Start
	HTTP   *http.Client
}

// NewClient returns a client of the server at base that can have n connections open. Call Close
// when it is no longer needed.
func NewClient(base string, n int) *Client {
	t := &http.Transport{MaxIdleConns: n, MaxIdleConnsPerHost: n}
	return &Client{Base: func(int) string { return base }, HTTP: &http.Client{Transport: t, Timeout: time.Minute}}
}

// Close closes the connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// An Answer is the response to a request.
type Answer struct {
	Status int
	Body   string
	Cookie *http.Cookie // the last cookie that the response set, if any
}

// Get sends request number i, with the cookie.
func (c *Client) Get(ctx context.Context, i int, path string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base(i)+path, nil)
	if err != nil {
		return Answer{}, err
	}
	if c.Cookie != nil {
		req.AddCookie(&http.Cookie{Name: c.Cookie.Name, Value: c.Cookie.Value})
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a := Answer{Status: res.StatusCode, Body: string(body)}
	for _, cookie := range res.Cookies() {
		a.Cookie = cookie
	}
	return a, err
}

// Start makes a session.
func (c *Client) Start(ctx context.Context) error {
	c.Cookie = nil
	a, err := c.Get(ctx, 0, "/start")
	if err != nil {
		return err
	}
	if a.Cookie == nil || a.Status != http.StatusOK {
		return fmt.Errorf("load: /start answered %d without a cookie: %s", a.Status, a.Body)
	}
	c.Cookie = a.Cookie
	return nil
}

// A Plan describes the requests that Run sends.
type Plan struct {
	Requests int
	Path     func(i int) string // with its parameters
	Spread   time.Duration      // the time over which the requests begin; 0: all at once
}

// Set is a Plan in which each of n requests sets its own key.
func Set(n int, work, spread time.Duration) Plan {
	return Plan{n, func(i int) string { return fmt.Sprintf("/set?key=k%d&work=%s", i, work) }, spread}
}

// Add is a Plan in which each of n requests reads the counter at the key "n", and then sets it to
// the next number.
func Add(n int, work time.Duration) Plan {
	return Plan{n, func(int) string { return "/add?key=n&work=" + work.String() }, 0}
}

// Incr is a Plan in which each of n requests adds 1 to the counter at the key "n", atomically.
func Incr(n int) Plan { return Plan{n, func(int) string { return "/incr?key=n" }, 0} }

// A Report is the result of a Plan.
type Report struct {
	Wall     time.Duration
	Statuses map[int]int
	Errors   []error // errors of requests that got no answer
	// Answers are in the order of the requests. The Answer of a request that failed is zero.
	Answers []Answer
}

// Run sends the requests of a plan and waits for all answers.
func (c *Client) Run(ctx context.Context, p Plan) Report {
	r := Report{Statuses: make(map[int]int), Answers: make([]Answer, p.Requests)}
	var wg sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	for i := range p.Requests {
		wg.Go(func() {
			if p.Spread > 0 {
				wait(ctx, p.Spread*time.Duration(i)/time.Duration(p.Requests))
			}
			a, err := c.Get(ctx, i, p.Path(i))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.Errors = append(r.Errors, err)
				return
			}
			r.Answers[i] = a
			r.Statuses[a.Status]++
		})
	}
	wg.Wait()
	r.Wall = time.Since(start)
	return r
}

// Kept counts how many of the keys k0 to k(n-1) the session has.
func (c *Client) Kept(ctx context.Context, n int) (int, error) {
	a, err := c.Get(ctx, 0, "/keys")
	if err != nil || a.Status != http.StatusOK {
		return 0, fmt.Errorf("load: /keys answered %d: %s (%w)", a.Status, a.Body, err)
	}
	there := make(map[string]bool)
	for key := range strings.FieldsSeq(a.Body) {
		there[key] = true
	}
	kept := 0
	for i := range n {
		if there["k"+strconv.Itoa(i)] {
			kept++
		}
	}
	return kept, nil
}

// Value returns the number at key.
func (c *Client) Value(ctx context.Context, key string) (int, error) {
	a, err := c.Get(ctx, 0, "/value?key="+url.QueryEscape(key))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(a.Body))
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
