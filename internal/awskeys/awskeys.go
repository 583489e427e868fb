// Package awskeys checks how a store of Amazon's gets the access keys of a role, for the tests of
// those stores.
package awskeys

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A Store is what the checks need of a store.
type Store interface {
	driver.Store
	driver.Admin
}

// A Service is a store, and what its service answers.
type Service struct {
	Open    func(t *testing.T, transport http.RoundTripper) (Store, error) // lazily, at the endpoint http://memory
	Free    Answer                                                         // there is no lock
	Expired Answer                                                         // the access key has ended
}

// An Answer is a status and a body.
type Answer struct {
	Status int
	Body   string
}

// role is a metadata service and the service of the store.
type role struct {
	Service
	id, known string // the key that the metadata service has now, and that the service takes; "" for any
	down      bool   // the metadata service
	found     int    // how many keys it gave
}

// RoundTrip implements http.RoundTripper.
func (r *role) RoundTrip(q *http.Request) (*http.Response, error) {
	a := r.Free
	switch {
	case q.URL.Host != "memory" && r.down:
		return nil, errors.New("the metadata service is down")
	case q.URL.Host != "memory":
		r.found++
		a = Answer{200, fmt.Sprintf(`{"AccessKeyId":%q,"SecretAccessKey":"s","Token":"t","Expiration":%q}`, r.id, time.Now().Add(time.Hour).Format(time.RFC3339))}
	case r.known != "" && !strings.Contains(q.Header.Get("Authorization"), "Credential="+r.known+"/"):
		a = r.Expired
	}
	date := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	return &http.Response{StatusCode: a.Status, Header: date, Body: io.NopCloser(strings.NewReader(a.Body))}, nil
}

const anyNumber = -1

// with runs a check of a role in a bubble. inspect asks the store after a time, and says how many
// keys were given by then, and whether the request succeeds.
func with(t *testing.T, s Service, check func(r *role, inspect func(after time.Duration, found int, works bool))) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
		"AWS_CONFIG_FILE": missing, "AWS_SHARED_CREDENTIALS_FILE": missing, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/role",
	} {
		t.Setenv(name, value)
	}
	synctest.Test(t, func(t *testing.T) {
		r := &role{Service: s, id: "OLD"}
		store, err := s.Open(t, r)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		check(r, func(after time.Duration, found int, works bool) {
			t.Helper()
			<-time.After(after)
			if _, err := store.Inspect(t.Context(), "job"); (err == nil) != works || found != anyNumber && r.found != found {
				t.Errorf("%v, after %d keys, want %d", err, r.found, found)
			}
		})
	})
}

// Kept checks that the access key of a role serves until its end if no new one can be had: a metadata
// service that is down for a while ends no hold.
func Kept(t *testing.T, s Service) {
	with(t, s, func(r *role, inspect func(time.Duration, int, bool)) {
		inspect(0, 1, true)
		inspect(40*time.Minute, 1, true)
		inspect(10*time.Minute, 2, true) // four fifths of the hour are over
		r.down = true
		inspect(50*time.Minute, 2, true)
		inspect(9*time.Minute, 2, true)
		inspect(2*time.Minute, 2, false)
		r.down = false
		inspect(0, 3, true)
	})
}

// Refused checks a service that says, before its time, that the access key has ended. The next
// request has the new key, and a service that refuses every key does not lead to a key for each
// request, but to one in 5 s.
func Refused(t *testing.T, s Service) {
	with(t, s, func(r *role, inspect func(time.Duration, int, bool)) {
		r.known = "OLD"
		inspect(0, 1, true)
		r.id, r.known = "NEW", "NEW"
		inspect(10*time.Second, 1, false)
		inspect(0, 2, true)
		r.known = "NONE"
		for range 10 {
			inspect(time.Second, anyNumber, false)
		}
		if r.found > 5 {
			t.Errorf("%d keys were asked for, want one in 5 s", r.found)
		}
	})
}
