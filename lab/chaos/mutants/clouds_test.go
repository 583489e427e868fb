package mutants

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

// TestOnClouds breaks what a store over conditional writes relies on: the service in the row of S3.
func TestOnClouds(t *testing.T) {
	t.Parallel()
	same := func(s driver.Store, _ *shared) driver.Store { return s }
	careless := func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
	}
	early := func(w http.ResponseWriter, _ *http.Request) {
		if rand.IntN(2) == 0 {
			w.Header().Set("Date", time.Now().Add(6*time.Second).UTC().Format(http.TimeFormat))
		}
	}
	var all sync.WaitGroup
	for name, change := range map[string]func(http.ResponseWriter, *http.Request){
		"a service that writes whatever the condition is":   careless,
		"front ends whose clocks differ by more than a TTL": early,
	} {
		m := mutant{name: name, within: 2000, seen: []string{"I1", "I2"}, load: soft, open: same}
		all.Go(func() { m.mustBeCaught(t, objects(t, change)) })
	}
	sound := mutant{name: "an honest service", load: soft, sound: same}
	all.Go(func() { sound.mustPass(t, objects(t, func(http.ResponseWriter, *http.Request) {})) })
	all.Wait()
}

// objects is a bucket of a service that changes requests and replies.
func objects(t *testing.T, change func(http.ResponseWriter, *http.Request)) place {
	backend := s3mem.New()
	if err := backend.CreateBucket("soak"); err != nil {
		t.Fatal(err)
	}
	honest := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		change(w, r)
		honest.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	key := func(context.Context) (id, secret, session string, err error) { return "id", "secret", "", nil }
	return func(ctx context.Context) (driver.Store, error) {
		return s3store.Open(ctx, s3store.Config{Bucket: "soak", Endpoint: srv.URL, Credentials: key}, register.Skew(0), register.Lazy())
	}
}
