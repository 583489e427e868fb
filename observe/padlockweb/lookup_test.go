package padlockweb_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
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

// listed is a store that counts the calls of List.
type listed struct {
	*memstore.Store
	calls *atomic.Int64
}

func (s listed) List(ctx context.Context, prefix string) ([]driver.State, error) {
	s.calls.Add(1)
	return s.Store.List(ctx, prefix)
}

// A complete snapshot shows that no slot of a name without a row is held, so requests for such
// names make the store list nothing. For a name outside the sampler's prefix, the store lists.
func TestNamesWithoutRowsCostNoList(t *testing.T) {
	calls := new(atomic.Int64)
	locker := padlock.New(listed{memstore.New(), calls})
	defer locker.Close(context.WithoutCancel(t.Context()))
	watcher := sampler.New(locker, sampler.Prefix("shop/"))
	web := padlockweb.Handler(locker, padlockweb.Sampler(watcher), padlockweb.ReadWithoutToken())
	defer web.Close()
	if _, err := watcher.Sample(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Acquire(t.Context(), "other", padlock.Slots(2)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int64{"name?n=shop/a": 0, "api/locks?n=shop/a": 0, "name?n=other": 1, "api/locks?n=other": 1} {
		calls.Store(0)
		w := httptest.NewRecorder()
		web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/"+path, nil))
		if got := calls.Load(); got != want || w.Code != http.StatusOK {
			t.Errorf("%s is %d and lists %d times, want %d", path, w.Code, got, want)
		}
		if text := w.Body.String(); want > 0 && !strings.Contains(text, "slot") {
			t.Errorf("%s does not show the slot: %s", path, text)
		}
	}
}
