package padlockweb_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// If the slots of a name cannot be listed, the JSON has a row that says so, although the lock
// itself is free.
func TestFreeNameWhoseSlotsAreNotKnown(t *testing.T) {
	store := memstore.New()
	locker := padlock.New(damaged{store, store, true})
	defer locker.Close(context.WithoutCancel(t.Context()))
	watcher := sampler.New(locker)
	web := padlockweb.Handler(locker, padlockweb.Sampler(watcher), padlockweb.ReadWithoutToken())
	defer web.Close()
	_, _ = watcher.Sample(t.Context()) // the snapshot has the error
	w := httptest.NewRecorder()
	web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/api/locks?n=shop/b", nil))
	if text := w.Body.String(); !strings.Contains(text, `"name":"shop/b"`) || !strings.Contains(text, `"slots_unknown"`) {
		t.Errorf("/api/locks is %d: %s", w.Code, text)
	}
}
