package s3store_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

const theBucket = "padlock-test"

// A service is gofakes3 behind front ends. Each store has a front end of its own.
type service struct {
	kind    s3store.Service
	mu      sync.Mutex
	objects http.Handler
	all     []*front
	resume  chan struct{} // closed while the service goes on
	counts  map[string]int
	starts  chan func()  // run in goroutines that no store has started
	disturb func(*front) // prepares the front ends of the next stores; nil does nothing
}

func newService(kind s3store.Service) *service {
	s := &service{kind: kind, counts: map[string]int{}, starts: make(chan func())}
	go func() {
		for f := range s.starts {
			go f()
		}
	}()
	s.empty()
	s.goOn()
	return s
}

// empty makes a new bucket without objects.
func (s *service) empty() {
	backend := s3mem.New()
	if err := backend.CreateBucket(theBucket); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	if s.kind == s3store.ServiceGoogle {
		s.objects = &generations{Handler: s.objects, of: map[string]int{}, last: 1_700_000_000_000_000}
	}
}

// generations makes Google Cloud Storage of a service: it counts the generations of objects, and
// knows conditions by generation. As Google does, it keeps nothing else from before the last write.
type generations struct {
	http.Handler
	mu   sync.Mutex
	of   map[string]int
	last int
}

func (g *generations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	condition := r.Header.Get("X-Goog-If-Generation-Match")
	switch {
	case r.Header.Get("If-Match")+r.Header.Get("If-None-Match")+r.Header.Get("X-Amz-Date") != "",
		condition != "" && r.Header.Get("Cache-Control") != "no-store":
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, "<Error><Code>NotForGoogle</Code></Error>")
		return
	case condition != "" && condition != strconv.Itoa(g.of[r.URL.Path]):
		w.WriteHeader(http.StatusPreconditionFailed)
		io.WriteString(w, "<Error><Code>PreconditionFailed</Code></Error>")
		return
	}
	g.Handler.ServeHTTP(w, r)
	if r.Method == http.MethodPut {
		g.last++
		g.of[r.URL.Path] = g.last
	}
	if n := g.of[r.URL.Path]; n > 0 {
		w.Header().Set("X-Goog-Generation", strconv.Itoa(n))
	}
	w.Header().Set("ETag", `"the same for all"`)
}

func (s *service) goOn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resume == nil {
		s.resume = make(chan struct{})
	}
	close(s.resume)
	return nil
}

// pause makes the service silent.
func (s *service) pause() (func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume = make(chan struct{})
	return s.goOn, nil
}

func (s *service) going() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resume
}

// requests returns how many requests of each method have come, and begins to count anew.
func (s *service) requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.counts
	s.counts = map[string]int{}
	return out
}

// A front is a front end of the service, over connections in memory, so that it can stand in a
// testing/synctest bubble.
type front struct {
	*service
	ahead time.Duration // by how much its clock is ahead
	conns chan net.Conn
	over  chan struct{} // closed when the service ends
	http  *http.Server

	mu    sync.Mutex
	open  []net.Conn
	fault map[string]fault // of the next requests, by method
}

// A fault answers a request in the place of the service. apply carries the request out.
type fault struct {
	times  int
	answer func(w http.ResponseWriter, apply func() *httptest.ResponseRecorder)
}

// newFront makes a front end. The clock of every second one is ahead by skew.
func (s *service) newFront(skew time.Duration) *front {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &front{service: s, ahead: time.Duration(len(s.all)%2) * skew, conns: make(chan net.Conn), over: make(chan struct{}), fault: map[string]fault{}}
	f.http = &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}
	s.starts <- func() { f.http.Serve(f) }
	s.all = append(s.all, f)
	return f
}

func (f *front) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.over:
		return nil, net.ErrClosed
	}
}

func (f *front) Close() error   { return nil }
func (f *front) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// stop ends the service.
func (s *service) stop() {
	for _, f := range s.all {
		f.cut()
		close(f.over)
		f.http.Close()
	}
	close(s.starts)
}

func (f *front) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case f.conns <- there:
	case <-f.over:
		return nil, net.ErrClosed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, there)
	return here, nil
}

// cut breaks all connections.
func (f *front) cut() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.open {
		c.Close()
	}
	f.open = nil
	return nil
}

// next sets the answer to the next requests with a method.
func (f *front) next(method string, times int, answer func(http.ResponseWriter, func() *httptest.ResponseRecorder)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault[method] = fault{times, answer}
}

func (f *front) takeFault(method string) func(http.ResponseWriter, func() *httptest.ResponseRecorder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.fault[method]
	if now.times == 0 {
		return nil
	}
	f.fault[method] = fault{now.times - 1, now.answer}
	return now.answer
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	<-f.going()
	f.service.mu.Lock()
	f.counts[r.Method]++
	objects := f.objects
	f.service.mu.Unlock()
	apply := func() *httptest.ResponseRecorder {
		out := httptest.NewRecorder()
		again := r.Clone(context.Background())
		again.Body = io.NopCloser(bytes.NewReader(body))
		objects.ServeHTTP(out, again)
		return out
	}
	if answer := f.takeFault(r.Method); answer != nil {
		answer(w, apply)
		return
	}
	f.pass(w, apply())
}

// pass sends a reply, with the Date of this front end.
func (f *front) pass(w http.ResponseWriter, out *httptest.ResponseRecorder) {
	for name, values := range out.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Date", time.Now().Add(f.ahead).UTC().Format(http.TimeFormat))
	w.WriteHeader(out.Code)
	w.Write(out.Body.Bytes())
}

// lose loses the reply to a request, which has an effect or not.
func lose(effect bool) func(http.ResponseWriter, func() *httptest.ResponseRecorder) {
	return func(_ http.ResponseWriter, apply func() *httptest.ResponseRecorder) {
		if effect {
			apply()
		}
		panic(http.ErrAbortHandler)
	}
}

// say sends an error, whether the request has an effect or not.
func say(status int, code string, effect bool) func(http.ResponseWriter, func() *httptest.ResponseRecorder) {
	return func(w http.ResponseWriter, apply func() *httptest.ResponseRecorder) {
		if effect {
			apply()
		}
		w.WriteHeader(status)
		io.WriteString(w, "<Error><Code>"+code+"</Code><Message>as the test says</Message></Error>")
	}
}

func key(context.Context) (id, secret, session string, err error) { return "AKID", "secret", "", nil }

func token(context.Context) (string, error) { return "the-token", nil }

// openOn opens a store on a front end of its own.
func (s *service) openOn(ctx context.Context, skew time.Duration, opts ...register.Option) (*register.Store, *front, error) {
	f := s.newFront(skew)
	if s.disturb != nil {
		s.disturb(f)
	}
	c := s3store.Config{
		Bucket: theBucket, Prefix: "locks/", Endpoint: "http://localhost", Service: s.kind,
		Transport: &http.Transport{DialContext: f.dial, DisableCompression: true},
	}
	if s.kind == s3store.ServiceGoogle {
		c.Token = token
	} else {
		c.Credentials = key
	}
	store, err := s3store.Open(ctx, c, append([]register.Option{register.Skew(skew)}, opts...)...)
	return store, f, err
}
