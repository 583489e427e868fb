// Package overhttptest puts a fake of a service behind front ends that misbehave: they lose
// replies, answer that they are busy, cut connections, stand still, and have clocks that differ. It
// is for the tests of stores over HTTP, together with package drivertest. To test a program that
// takes locks, use package padlocktest instead.
//
// All connections are in memory, so a test can run in a bubble of testing/synctest, where long
// leases take no time.
package overhttptest

import (
	"bytes"
	"context"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
)

// A Service is a fake of a service behind front ends. Each store should have a front end of its
// own.
type Service struct {
	// Skew is how far the clocks of the front ends differ: every second one is ahead. A clock shows
	// only in the header Date of the replies.
	Skew time.Duration
	// Kind says what kind a request is, for Next and Counts; nil means its method.
	Kind func(r *http.Request) string
	// Notices says that the service notices when a client has given up a request, or its connection
	// is cut: then the context of the request ends. Other services carry the request out.
	Notices bool

	mu      sync.Mutex
	handler http.Handler
	fronts  []*Front
	resume  chan struct{} // closed while the service goes on
	counts  map[string]int
	skewed  time.Duration   // by which the clocks of all front ends are off
	starts  chan func()     // run in goroutines that no store has started
	ctx     context.Context // of the requests that the handler gets
	stop    context.CancelFunc
}

// Start makes a service of a handler, which is the fake. Stop must be called at the end.
func Start(handler http.Handler) *Service {
	s := &Service{handler: handler, counts: map[string]int{}, starts: make(chan func())}
	s.ctx, s.stop = context.WithCancel(context.Background())
	go func() {
		for f := range s.starts {
			go f()
		}
	}()
	s.goOn()
	return s
}

// Stop ends the service, and the contexts of the requests that the handler has not answered yet.
// Unless Notices is set, nothing else ends them.
func (s *Service) Stop() {
	s.stop()
	for _, f := range s.fronts {
		f.Cut()
		close(f.over)
		f.http.Close()
	}
	close(s.starts)
}

// Handler returns the fake.
func (s *Service) Handler() http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handler
}

// SetHandler puts another fake in the place of the first one.
func (s *Service) SetHandler(handler http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = handler
}

func (s *Service) goOn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resume == nil {
		s.resume = make(chan struct{})
	}
	close(s.resume)
	return nil
}

// Pause makes the service silent until resume is called.
func (s *Service) Pause() (resume func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume = make(chan struct{})
	return s.goOn, nil
}

func (s *Service) going() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resume
}

// Counts returns how many requests of each kind have come, and begins to count anew.
func (s *Service) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.counts
	s.counts = map[string]int{}
	return out
}

func (s *Service) kind(r *http.Request) string {
	if s.Kind == nil {
		return r.Method
	}
	return s.Kind(r)
}

// Harness returns what drivertest needs to check a store. open opens a store on a front end. Writes
// are of the kind that write names. empty makes the service forget everything.
//
// Its SkewClock, like Skew and Ahead, changes only the header Date of the replies. If your service
// tells its time in another way, as in the body of a reply, the store does not see that change, and
// the case clock/server fails. Then set SkewClock to a func of your own, which sets the clock of your
// fake.
func (s *Service) Harness(write string, open func(ctx context.Context, f *Front) (driver.Store, error), empty func()) drivertest.Harness {
	var fronts sync.Map // by store
	frontOf := func(store driver.Store) *Front {
		f, _ := fronts.Load(store)
		return f.(*Front)
	}
	return drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			f := s.Front()
			store, err := open(ctx, f)
			if err == nil {
				fronts.Store(store, f)
			}
			return store, err
		},
		LoseReply:     func(store driver.Store) error { frontOf(store).Next(write, 1, Lose(true)); return nil },
		CutConnection: func(store driver.Store) error { return frontOf(store).Cut() },
		Pause:         s.Pause,
		SkewClock:     s.setClock,
		Restart: func(keepData bool) error {
			fronts.Range(func(_, f any) bool { f.(*Front).Cut(); return true })
			if !keepData {
				empty()
			}
			return nil
		},
	}
}

// Full is for Harness.Full: every request of a kind gets the answer.
func (s *Service) Full(kind string, answer Answer) func(on bool) error {
	return func(on bool) error {
		s.mu.Lock()
		fronts := slices.Clone(s.fronts)
		s.mu.Unlock()
		for _, f := range fronts {
			if f.Next(kind, 0, nil); on {
				f.Next(kind, math.MaxInt, answer)
			}
		}
		return nil
	}
}

// A Front is a front end of the service.
type Front struct {
	// Ahead is by how much its clock is ahead.
	Ahead time.Duration

	service *Service
	conns   chan net.Conn
	over    chan struct{} // closed when the service ends
	http    *http.Server

	mu    sync.Mutex
	open  []net.Conn
	fault map[string]fault // of the next requests, by kind
}

// An Answer answers a request in the place of the service. carryOut carries the request out, and
// may be called later or twice.
type Answer func(w http.ResponseWriter, carryOut func() *httptest.ResponseRecorder)

type fault struct {
	times  int
	answer Answer
}

// Front makes a front end.
func (s *Service) Front() *Front {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &Front{service: s, Ahead: time.Duration(len(s.fronts)%2) * s.Skew, conns: make(chan net.Conn), over: make(chan struct{}), fault: map[string]fault{}}
	f.http = &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}
	s.starts <- func() { f.http.Serve(listener{f}) }
	s.fronts = append(s.fronts, f)
	return f
}

// Transport sends requests to the front end, whatever host they are for. They must be http, not
// https.
func (f *Front) Transport() *http.Transport {
	return &http.Transport{DialContext: f.dial, DisableCompression: true}
}

func (f *Front) dial(context.Context, string, string) (net.Conn, error) {
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

// Cut breaks all connections.
func (f *Front) Cut() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.open {
		c.Close()
	}
	f.open = nil
	return nil
}

// Next sets the answer to the next requests of a kind.
func (f *Front) Next(kind string, times int, answer Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault[kind] = fault{times, answer}
}

func (f *Front) take(kind string) Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.fault[kind]
	if now.times == 0 {
		return nil
	}
	f.fault[kind] = fault{now.times - 1, now.answer}
	return now.answer
}

// ServeHTTP answers a request as the service does, or with an error that Next has set.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	<-f.service.going()
	kind := f.service.kind(r)
	f.service.mu.Lock()
	f.service.counts[kind]++
	handler := f.service.handler
	f.service.mu.Unlock()
	carryOut := func() *httptest.ResponseRecorder {
		out := httptest.NewRecorder()
		ctx := f.service.ctx
		if f.service.Notices {
			ctx = r.Context()
		}
		again := r.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(out, again)
		return out
	}
	if answer := f.take(kind); answer != nil {
		answer(w, carryOut)
		return
	}
	f.pass(w, carryOut())
}

// setClock sets the clocks of all front ends, which show only in the header Date (see pass).
func (s *Service) setClock(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skewed = d
	return nil
}

// now returns the time by the clock of the front end.
func (f *Front) now() time.Time {
	f.service.mu.Lock()
	defer f.service.mu.Unlock()
	return time.Now().Add(f.Ahead + f.service.skewed)
}

// pass sends a reply, with the Date of this front end.
func (f *Front) pass(w http.ResponseWriter, out *httptest.ResponseRecorder) {
	for name, values := range out.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Date", f.now().UTC().Format(http.TimeFormat))
	w.WriteHeader(out.Code)
	w.Write(out.Body.Bytes())
}

// Lose loses the reply to a request, which has an effect or not.
func Lose(effect bool) Answer {
	return func(_ http.ResponseWriter, carryOut func() *httptest.ResponseRecorder) {
		if effect {
			carryOut()
		}
		panic(http.ErrAbortHandler)
	}
}

// Say sends a status and a body, whether the request has an effect or not.
func Say(status int, body string, effect bool) Answer {
	return func(w http.ResponseWriter, carryOut func() *httptest.ResponseRecorder) {
		if effect {
			carryOut()
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// listener hands the connections in memory to the server of a Front.
type listener struct{ *Front }

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }
