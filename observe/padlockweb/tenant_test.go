package padlockweb_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// damaged is a store whose List returns an error that names a lock. With some, List also returns a
// state.
type damaged struct {
	driver.Store
	driver.Admin
	some bool
}

func (d damaged) List(context.Context, string) ([]driver.State, error) {
	err := fmt.Errorf("%w: secret-1.lock is damaged", driver.ErrUnavailable)
	if d.some {
		return []driver.State{{Name: "shop/a", Holds: []driver.Hold{{}}}}, err
	}
	return nil, err
}

// refusing is a store that cannot tell the state of a lock, and names another lock in its error.
type refusing struct {
	driver.Store
	driver.Admin
}

func (refusing) Inspect(context.Context, string) (driver.State, error) {
	return driver.State{}, fmt.Errorf("%w: secret-1.lock is damaged", driver.ErrUnavailable)
}

func (refusing) List(context.Context, string) ([]driver.State, error) {
	return []driver.State{{Name: "shop/a", Holds: []driver.Hold{{}}}}, driver.ErrUnavailable
}

// The reason why the state of a name is unknown is an error of the store, too.
func TestPrefixAndUnknownStates(t *testing.T) {
	store := memstore.New()
	locker := padlock.New(refusing{store, store})
	watcher := sampler.New(locker, sampler.Watch("shop/b"))
	web := padlockweb.Handler(locker, padlockweb.Sampler(watcher), padlockweb.Accept(tokens(t)))
	t.Cleanup(func() { web.Close(); locker.Close(context.WithoutCancel(t.Context())) })
	_, _ = watcher.Sample(t.Context()) // the snapshot has the error
	for _, path := range []string{"", "api/locks", "name?n=shop/b", "api/locks?n=shop/b", "name?n=shop/c", "api/locks?n=shop/c"} {
		for visitor, sees := range map[string]bool{reader: true, shopOnly: false} {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/"+path, nil)
			with(visitor)(r)
			web.ServeHTTP(w, r)
			if text := w.Body.String(); strings.Contains(text, "secret-1.lock") != sees || !strings.Contains(text, "unknown") {
				t.Errorf("%q: the reason is shown, want %v: %s", path, sees, text)
			}
		}
	}
}

// The error of a sample can have the name of any lock. A visitor whose token has a prefix does not
// see it.
func TestPrefixAndErrors(t *testing.T) {
	for _, some := range []bool{false, true} {
		store := memstore.New()
		locker := padlock.New(damaged{store, store, some})
		watcher := sampler.New(locker)
		web := padlockweb.Handler(locker, padlockweb.Sampler(watcher), padlockweb.Accept(tokens(t)))
		t.Cleanup(func() { web.Close(); locker.Close(t.Context()) })
		_, _ = watcher.Sample(t.Context()) // the snapshot has the error
		for _, path := range []string{"", "api/locks", "name?n=shop/a", "metrics"} {
			text := map[string]string{}
			for _, visitor := range []string{reader, shopOnly} {
				w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/"+path, nil)
				with(visitor)(r)
				web.ServeHTTP(w, r)
				text[visitor] = w.Body.String()
			}
			if strings.Contains(text[shopOnly], "secret") {
				t.Errorf("some=%v: %q shows the name of another lock: %s", some, path, text[shopOnly])
			}
			if path != "metrics" && !strings.Contains(text[reader], "secret-1.lock") {
				t.Errorf("some=%v: %q does not tell the reason to a visitor who may see all names: %s", some, path, text[reader])
			}
		}
	}
}
