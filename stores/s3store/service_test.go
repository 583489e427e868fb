package s3store_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

const theBucket = "padlock-test"

// A service is an S3 in memory behind front ends. Each store has a front end of its own.
type service struct {
	*overhttptest.Service
	kind    s3store.Service
	disturb func(*front) // prepares the front ends of the next stores; nil does nothing
}

type front = overhttptest.Front

func newService(kind s3store.Service) *service {
	s := &service{Service: overhttptest.Start(nil), kind: kind}
	s.empty()
	return s
}

// empty makes a new bucket without objects.
func (s *service) empty() {
	var objects http.Handler = &fakes.S3{Bucket: theBucket}
	if s.kind == s3store.ServiceGoogle {
		objects = &generations{Handler: objects, of: map[string]int{}, last: 1_700_000_000_000_000}
	}
	s.SetHandler(objects)
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

// say sends an error, whether the request has an effect or not.
func say(status int, code string, effect bool) overhttptest.Answer {
	return overhttptest.Say(status, "<Error><Code>"+code+"</Code><Message>as the test says</Message></Error>", effect)
}

func key(context.Context) (id, secret, session string, err error) { return "AKID", "secret", "", nil }

func token(context.Context) (string, error) { return "the-token", nil }

// openOn opens a store on a front end of its own. The clock of every second one is ahead by skew.
func (s *service) openOn(ctx context.Context, skew time.Duration, opts ...register.Option) (*register.Store, *front, error) {
	s.Skew = skew
	f := s.Front()
	if s.disturb != nil {
		s.disturb(f)
	}
	store, err := s.openAt(ctx, f, opts...)
	return store, f, err
}

func (s *service) openAt(ctx context.Context, f *front, opts ...register.Option) (*register.Store, error) {
	c := s3store.Config{
		Bucket: theBucket, Prefix: "locks/", Endpoint: "http://localhost", Service: s.kind, Transport: f.Transport(),
	}
	if s.kind == s3store.ServiceGoogle {
		c.Token = token
	} else {
		c.Credentials = key
	}
	return s3store.Open(ctx, c, append([]register.Option{register.Skew(s.Skew)}, opts...)...)
}
