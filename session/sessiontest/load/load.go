// Package load is the test that a session library has to pass: many requests
// at once over one cookie, each of which reads the session, works for a
// while, and sets a key of its own. How many keys are there afterwards?
//
// [Run] is the client. It speaks to any server that answers these paths, in
// whatever language; [Handler] is one made with package session:
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

// A Client is one browser: it keeps one cookie, and sends as many requests at
// once as it is told to. It is safe for concurrent use after Start.
type Client struct {
	Base   func(request int) string // the server's address for a request, for several servers on one session
	Cookie *http.Cookie             // the session's; Start sets it
	HTTP   *http.Client
}

// NewClient returns a client of the server at base that can have n connections
// open. Close it.
func NewClient(base string, n int) *Client {
	t := &http.Transport{MaxIdleConns: n, MaxIdleConnsPerHost: n}
	return &Client{Base: func(int) string { return base }, HTTP: &http.Client{Transport: t, Timeout: time.Minute}}
}

// Close closes the connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// An Answer is what a request got.
type Answer struct {
	Status int
	Body   string
	Cookie *http.Cookie // the last one set, if any
	Took   time.Duration
	Worked time.Duration // by the handler's own clock, if it says so: header X-Worked
}

const workHeader = "X-Worked"

// Get sends a request, number i, with the cookie.
func (c *Client) Get(ctx context.Context, i int, path string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base(i)+path, nil)
	if err != nil {
		return Answer{}, err
	}
	if c.Cookie != nil {
		req.AddCookie(&http.Cookie{Name: c.Cookie.Name, Value: c.Cookie.Value})
	}
	start := time.Now()
	res, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a := Answer{Status: res.StatusCode, Body: string(body), Took: time.Since(start)}
	a.Worked, _ = time.ParseDuration(res.Header.Get(workHeader))
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

// A Plan is what Run sends.
type Plan struct {
	Requests int
	Path     func(i int) string // with its parameters
	Spread   time.Duration      // over which the requests begin; 0: at once
}

// Set is a Plan in which each of n requests sets a key of its own.
func Set(n int, work, spread time.Duration) Plan {
	return Plan{n, func(i int) string { return fmt.Sprintf("/set?key=k%d&work=%s", i, work) }, spread}
}

// Add is a Plan in which each of n requests sets counter to its value + 1.
func Add(n int, work time.Duration) Plan {
	return Plan{n, func(int) string { return "/add?key=n&work=" + work.String() }, 0}
}

// Incr is a Plan in which each of n requests adds 1 to counter, atomically.
func Incr(n int) Plan { return Plan{n, func(int) string { return "/incr?key=n" }, 0} }

// Read is a Plan of n readers.
func Read(n int, work time.Duration) Plan {
	return Plan{n, func(int) string { return "/read?work=" + work.String() }, 0}
}

// A Report is what came of a Plan.
type Report struct {
	Wall     time.Duration
	Slowest  time.Duration
	Worked   time.Duration // by all handlers together, where they say so
	Statuses map[int]int
	Errors   []error // requests without an answer
	// Answers in the order of the requests; zero where there was an error.
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
			r.Slowest = max(r.Slowest, a.Took)
			r.Worked += a.Worked
		})
	}
	wg.Wait()
	r.Wall = time.Since(start)
	return r
}

// Kept counts the keys k0 to k(n-1) that the session has.
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
