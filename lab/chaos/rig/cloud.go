package rig

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/lab/soak"
)

func bucket() (http.Handler, error) {
	objects := s3mem.New()
	err := objects.CreateBucket("soak")
	return gofakes3.New(objects, gofakes3.WithLogger(gofakes3.DiscardLog())).Server(), err
}

func table() (http.Handler, error) { return fakes.NewDynamoDB("soak"), nil }

func leases() (http.Handler, error) { return fakes.NewKubernetes(), nil }

// inCloud returns the row of a store in a service of a cloud, which this process keeps in memory.
// The URL has the address of the service in the place of its verb.
func inCloud(service func() (http.Handler, error), rawURL string) func(*Site) (*setup, error) {
	return built(func(s *Site) *setup {
		for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
			must(os.Setenv(name, "soak")) // for the workers, too
		}
		c := &cloud{service: got(service())}
		srv := httptest.NewServer(c)
		s.host.Cleanup(func() {
			srv.CloseClientConnections()
			srv.Close()
			c.late.Wait()
		})
		links := s.proxies(s.Workers, srv.Listener.Addr().String())
		stage := stageOf(links, func(at []string) string { return fmt.Sprintf(rawURL, at[0]) })
		return &setup{stages: [][]string{stage}, open: Open, faults: append(networkFaults(links), c.faults()...)}
	})
}

// A cloud is a service that is too busy at times, or gets requests twice, and whose clock may be
// wrong.
type cloud struct {
	service http.Handler
	late    sync.WaitGroup // repeated requests that are under way

	mu    sync.Mutex
	busy  bool
	twice bool
	ahead time.Duration
}

// faults returns the faults of the service. A busy service may have carried out a request to which
// it answers 429 or 503.
func (c *cloud) faults() []soak.Fault {
	on := soak.Targets(serverTarget, 1)
	change := func(where *bool, to bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		*where = to
	}
	set := func(where *bool) func(*rand.Rand, int) (func() error, error) {
		return begin(func(*rand.Rand, int) func() {
			change(where, true)
			return func() { change(where, false) }
		})
	}
	faults := []soak.Fault{
		{Kind: "throttled", On: on, Last: time.Second, Grace: 4 * time.Second, Weight: 4, Begin: set(&c.busy)},
		{Kind: "repeated requests", On: on, Last: time.Second, Grace: 4 * time.Second, Weight: 4, Begin: set(&c.twice)},
	}
	return append(faults, setClock(func(by time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ahead += by
	})...)
}

// ServeHTTP answers a request.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	c.mu.Lock()
	busy, twice, ahead := c.busy, c.twice && r.Method != http.MethodGet, c.ahead
	c.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
	if r.URL.Query().Has("watch") { // its reply lasts
		c.service.ServeHTTP(w, r)
		return
	}
	dice := rand.IntN(4)
	out := &httptest.ResponseRecorder{Code: http.StatusTooManyRequests, Body: new(bytes.Buffer)}
	if busy && dice == 0 {
		out.Code = http.StatusServiceUnavailable
	}
	if !busy || dice >= 2 {
		out = c.carryOut(r, body)
	}
	if twice {
		again := r.Clone(r.Context())
		c.late.Go(func() {
			<-time.After(time.Duration(rand.Int64N(int64(500 * time.Millisecond))))
			c.carryOut(again, body)
		})
	}
	if busy && dice == 2 {
		out = &httptest.ResponseRecorder{Code: http.StatusServiceUnavailable, Body: new(bytes.Buffer)}
	}
	for name, values := range out.Header() {
		if !strings.EqualFold(name, "Date") {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(out.Code)
	w.Write(out.Body.Bytes())
}

// carryOut carries a request out.
func (c *cloud) carryOut(r *http.Request, body []byte) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	c.service.ServeHTTP(out, again)
	return out
}
