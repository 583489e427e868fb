//go:build fakegcs

package s3store_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

// The store passes the suite with the generations of fake-gcs-server, which padlock has not
// written. That server knows conditions of a PUT in its JSON API only. So the test translates PUTs,
// and adds the text of an error to a 404. See make test-fake-gcs.
func TestFakeGCS(t *testing.T) {
	server := os.Getenv("FAKE_GCS")
	translation := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { translate(w, r, server) }))
	t.Cleanup(translation.Close)
	q, err := http.NewRequest(http.MethodPost, server+"/storage/v1/b", strings.NewReader(`{"name":"padlock-test"}`))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := http.DefaultClient.Do(q); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("the bucket: %v, %v", r, err)
	}
	drivertest.Run(t, drivertest.Harness{
		Slow: true,
		Open: func(ctx context.Context) (driver.Store, error) {
			return s3store.Open(ctx, s3store.Config{
				Bucket: "padlock-test", Prefix: "locks", Service: s3store.ServiceGoogle, Endpoint: translation.URL, Token: token,
			}, register.Skew(0))
		},
	})
}

// translate sends a request of the XML API to the server, a PUT by the JSON API.
func translate(w http.ResponseWriter, r *http.Request, server string) {
	target := server + r.URL.RequestURI()
	method := r.Method
	if method == http.MethodPut {
		bucket, object, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		method, target = http.MethodPost, server+"/upload/storage/v1/b/"+bucket+"/o?"+url.Values{
			"uploadType": {"media"}, "name": {object}, "ifGenerationMatch": {r.Header.Get("X-Goog-If-Generation-Match")},
		}.Encode()
	}
	q, err := http.NewRequestWithContext(r.Context(), method, target, r.Body)
	if err != nil {
		panic(err)
	}
	q.Host = "storage.googleapis.com"
	reply, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer reply.Body.Close()
	generation := reply.Header.Get("X-Goog-Generation")
	if r.Method == http.MethodPut && reply.StatusCode == http.StatusOK {
		var object struct{ Generation string }
		if err := json.NewDecoder(reply.Body).Decode(&object); err != nil {
			panic(err)
		}
		generation = object.Generation // the JSON API has it in the body; the XML API has no body
	}
	w.Header().Set("X-Goog-Generation", generation)
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	w.WriteHeader(reply.StatusCode)
	if reply.StatusCode == http.StatusNotFound {
		io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
		return
	}
	io.Copy(w, reply.Body)
}
