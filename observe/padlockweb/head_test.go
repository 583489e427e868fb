package padlockweb_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// TestHeadOfAStream: a HEAD request for the stream of events ends, and takes no place of a stream.
func TestHeadOfAStream(t *testing.T) {
	s := newSite(t, padlockweb.MaxStreams(1), padlockweb.ReadWithoutToken())
	for range 3 {
		ended := make(chan *httptest.ResponseRecorder, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		go func() {
			w := httptest.NewRecorder()
			s.web.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodHead, "/events", nil))
			ended <- w
		}()
		if w := <-ended; ctx.Err() != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" {
			t.Fatalf("HEAD /events: %d %v, %v", w.Code, w.Header(), ctx.Err())
		}
	}
}

// TestWayToTheLogin: a browser that needs a token is sent to the login page, from every path.
func TestWayToTheLogin(t *testing.T) {
	web := newSite(t, padlockweb.Accept(tokens(t))).web
	for _, path := range []string{"", "name?n=a", "api/locks", "metrics"} {
		at, err := url.Parse("/locks/" + path)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at.String(), nil)
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		http.StripPrefix("/locks", web).ServeHTTP(w, r)
		if to, err := at.Parse(w.Header().Get("Location")); err != nil || to.Path != "/locks/login" {
			t.Errorf("%s: %d, to %v, %v", at, w.Code, to, err)
		}
	}
}

// forgetful is a store with a history that cannot be read at first.
type forgetful struct {
	*memstore.Store
	fail    bool
	records []fast.Record
}

func (f *forgetful) Record(_ context.Context, _ string, records []fast.Record) error {
	f.records = records
	return nil
}

func (f *forgetful) Recorded(context.Context, string, int) (map[string][]fast.Record, error) {
	if f.fail {
		return nil, errors.New("the store does not answer")
	}
	return map[string][]fast.Record{"nightly": f.records}, nil
}

func (f *forgetful) Records(context.Context, string) ([]fast.Record, error) {
	if f.fail {
		return nil, errors.New("the store does not answer")
	}
	return f.records, nil
}

// TestFiguresAfterAnError: figures that are incomplete because of an error are soon replaced.
func TestFiguresAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &forgetful{Store: memstore.New()}
		locker := padlock.New(store)
		defer locker.Close(context.WithoutCancel(t.Context()))
		past := history.Open("", "", store)
		record(t, past, history.Run{Name: "nightly", Start: time.Now(), End: time.Now(), Slot: -1})
		own := sampler.New(locker)
		if _, err := own.Sample(t.Context()); err != nil {
			t.Fatal(err)
		}
		web := padlockweb.Handler(locker, padlockweb.Sampler(own), padlockweb.History(past), padlockweb.ReadWithoutToken())
		defer web.Close()
		figures := func() string {
			w := httptest.NewRecorder()
			web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/metrics", nil))
			return w.Body.String()
		}
		store.fail = true
		if text := figures(); strings.Contains(text, `timestamp_seconds{name="nightly"}`) || !strings.Contains(text, `padlock_history_complete{store="memory"} 0`) {
			t.Fatalf("the history was read all the same, or nothing says that it was not:\n%s", text)
		}
		store.fail = false
		<-time.After(2 * time.Second)
		if text := figures(); !strings.Contains(text, `timestamp_seconds{name="nightly"}`) || !strings.Contains(text, `padlock_history_complete{store="memory"} 1`) {
			t.Errorf("2 s after the error, the figures lack a run:\n%s", text)
		}
	})
}
