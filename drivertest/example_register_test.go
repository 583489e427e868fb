package drivertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/storekit/register"
)

// bucketStore keeps locks in a bucket of an object storage: one small object for each name.
func bucketStore(base string, c *http.Client) driver.Store {
	return register.New(&bucket{base, c}, register.Options{
		Name:  "bucket",
		Clock: register.Clock{Grain: time.Millisecond}, // of the header Now; S3's Date would have time.Second, and a Skew
		Notes: []string{"This store is an example."},
	})
}

const milliseconds = "2006-01-02T15:04:05.000Z07:00"

// bucket is the register: conditional requests, and the service's own time.
type bucket struct {
	base   string
	client *http.Client
}

func (b *bucket) do(ctx context.Context, method, name, header, value string, data []byte) (*http.Response, []byte, error) {
	q, err := http.NewRequestWithContext(ctx, method, b.base+url.PathEscape(name)+"/lock", bytes.NewReader(data))
	if err != nil {
		return nil, nil, err
	}
	q.GetBody = nil // net/http must not repeat a PUT
	if header != "" {
		q.Header.Set(header, value)
	}
	a, err := b.client.Do(q)
	if err != nil {
		return nil, nil, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return a, body, err
}

func (b *bucket) Get(ctx context.Context, name string) (v register.Value, err error) {
	a, body, err := b.do(ctx, http.MethodGet, name, "", "", nil)
	if err != nil {
		return v, err
	}
	switch v.Now, err = time.Parse(milliseconds, a.Header.Get("Now")); a.StatusCode {
	case http.StatusOK:
		v.Data, v.Version = body, a.Header.Get("ETag")
	case http.StatusNotFound:
	default:
		err = errors.New(a.Status)
	}
	return v, err
}

func (b *bucket) Put(ctx context.Context, name string, data []byte, version string) error {
	header := "If-Match"
	if version == "" {
		header, version = "If-None-Match", "*"
	}
	a, _, err := b.do(ctx, http.MethodPut, name, header, version, data)
	switch {
	case err != nil:
		return err // nobody knows
	case a.StatusCode == http.StatusPreconditionFailed:
		return register.ErrChanged
	case a.StatusCode >= 400 && a.StatusCode < 500:
		return fmt.Errorf("%w: %s", driver.ErrUnavailable, a.Status)
	case a.StatusCode >= 500:
		return errors.New(a.Status)
	}
	return nil
}

func (b *bucket) Close() error { b.client.CloseIdleConnections(); return nil }

// storage is a fake object storage: conditional writes, and versions as ETags.
type storage struct {
	mu      sync.Mutex
	objects map[string]string
	etags   map[string]string
	writes  int
}

func (s *storage) ServeHTTP(rw http.ResponseWriter, q *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := q.URL.EscapedPath()
	etag, exists := s.etags[key]
	rw.Header().Set("Now", time.Now().UTC().Format(milliseconds))
	switch {
	case q.Method == http.MethodGet && !exists:
		rw.WriteHeader(http.StatusNotFound)
	case q.Method == http.MethodGet:
		rw.Header().Set("ETag", etag)
		io.WriteString(rw, s.objects[key])
	case exists && q.Header.Get("If-None-Match") == "*" || q.Header.Get("If-Match") != etag && q.Header.Get("If-None-Match") == "":
		rw.WriteHeader(http.StatusPreconditionFailed)
	default:
		data, _ := io.ReadAll(q.Body)
		s.writes++
		s.objects[key], s.etags[key] = string(data), fmt.Sprintf(`"%d"`, s.writes)
	}
}

// A store for a service with conditional writes is a register of two methods. Package register does
// the rest, and the suite checks it.
func Example_register() {
	server := httptest.NewServer(&storage{objects: map[string]string{}, etags: map[string]string{}})
	defer server.Close()

	failures := drivertest.Check(drivertest.Harness{
		Slow: true,
		Open: func(context.Context) (driver.Store, error) {
			return bucketStore(server.URL+"/locks/", &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}), nil
		},
	})
	fmt.Println(failures)
	// Output: []
}
