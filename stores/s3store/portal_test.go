package s3store_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// portals are replies of a proxy that answers in the place of the service, as if all were well.
func portals() map[string]answering {
	all := map[string]answering{}
	for _, status := range []int{200, 201, 202, 204, 206} {
		for _, header := range []string{"Server", "ETag", "X-Goog-Generation"} { // a page may have an ETag
			for _, body := range []string{"", "<html><body>We are back soon.</body></html>", `{"status":"maintenance"}`} {
				if header != "Server" && body == "" {
					continue // that could be the service
				}
				all[fmt.Sprint(status, " ", header, " ", body)] = func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
					w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
					w.Header().Set(header, `"1"`)
					w.WriteHeader(status)
					io.WriteString(w, body)
				}
			}
		}
	}
	return all
}

func TestPortal(t *testing.T) {
	for name, answer := range portals() {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *service) {
				store, f := s.open(t)
				defer store.Close()
				other, _ := s.open(t)
				defer other.Close()
				if err := overhttptest.CheckPortal(t, store, other, answers(f, answer)); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("Acquire whose PUT it takes: %v", err)
				}
			})
		})
	}
}
