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

// A proxy that answers 200 to everything, for maintenance or to ask for a login, grants no lock and
// ends no hold: its reply says neither that there is no object nor that one was written.
func TestPortal(t *testing.T) {
	for name, answer := range portals() {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *service) {
				store, f := s.open(t)
				defer store.Close()
				other, _ := s.open(t)
				defer other.Close()
				r := request("held")
				if _, err := store.Acquire(t.Context(), r); err != nil {
					t.Fatal(err)
				}

				f.Next("GET", 1000, answer)
				f.Next("PUT", 1000, answer)
				if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("Acquire: %v", err)
				}
				if _, err := store.Extend(t.Context(), r.Name, r.Token.Text(), time.Minute); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrLost) {
					t.Errorf("Extend: %v", err)
				}
				if _, err := store.Inspect(t.Context(), r.Name); !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("Inspect: %v", err)
				}
				if _, err := store.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("List: %v", err)
				}

				f.Next("GET", 0, nil) // it takes only writes
				if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("Acquire whose PUT it takes: %v", err)
				}
				if st, err := other.Inspect(t.Context(), "job"); err != nil || len(st.Holds) > 0 {
					t.Errorf("nothing was written: %+v, %v", st, err)
				}

				f.Next("PUT", 1, answer)
				if _, err := store.Acquire(t.Context(), request("job")); err != nil {
					t.Errorf("Acquire when it is gone: %v", err)
				}
				if _, err := other.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrHeld) {
					t.Errorf("another Acquire: %v", err)
				}
			})
		})
	}
}
