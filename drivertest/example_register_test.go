package drivertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/open"
)

const milliseconds = "2006-01-02T15:04:05.000Z07:00"

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
	key := q.URL.Path
	etag, exists := s.etags[key]
	rw.Header().Set("Now", time.Now().UTC().Format(milliseconds))
	switch {
	case q.Method == http.MethodGet && q.URL.Query().Has("prefix"):
		s.list(rw, key+q.URL.Query().Get("prefix"), key)
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

// list sends the keys below a bucket that begin with a text.
func (s *storage) list(rw http.ResponseWriter, prefix, bucket string) {
	keys := []string{}
	for key := range s.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, strings.TrimPrefix(key, bucket))
		}
	}
	json.NewEncoder(rw).Encode(keys)
}

// A store for a service with conditional writes is a register of two or three methods. Package
// register does the rest, and the suite checks it. The store is in example_bucketstore_test.go.
func Example_register() {
	server := httptest.NewServer(&storage{objects: map[string]string{}, etags: map[string]string{}})
	defer server.Close()

	failures := drivertest.Check(drivertest.Harness{
		Slow: true,
		Open: func(ctx context.Context) (driver.Store, error) {
			return open.Store(ctx, "bucket://shop/locks?endpoint="+server.URL, open.Schemes(bucketScheme()))
		},
	})
	fmt.Println(failures)
	// Output: []
}

// The store of the example stays short.
func TestExampleIsShort(t *testing.T) {
	const most = 70 // lines of code
	text, err := os.ReadFile("example_bucketstore_test.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	if n > most {
		t.Errorf("the store over a fake object storage has %d lines of code, more than %d: move what other stores repeat into storekit/register", n, most)
	}
}
