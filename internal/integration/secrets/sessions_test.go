//go:build !race

package secrets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/gorillastore"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/scsstore"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// idFrom returns an id that a visitor may have.
func idFrom(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// A Session shows neither an id that its client has sent, nor one that it has got, nor a value. It is
// printed inside a request and outside of one, before and after it was used. The cookies in the
// headers of a request and of its answer are texts of net/http.
func TestSession(t *testing.T) {
	m, err := session.New(sessionstore.NewMemory())
	noError(t, err)
	secrets := []string{marker}
	all := map[string]any{"Manager": m}
	handler := m.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := session.From(r.Context())
		for _, how := range shown(secrets, s) {
			t.Errorf("before its use: %s", how)
		}
		noError(t, s.Put("token", marker))
		noError(t, s.SetUser("ann"))
		noError(t, s.Commit(r.Context()))
		noError(t, s.Update(r.Context(), func(_ context.Context, tx *session.Session) error {
			all["Session in Update"] = tx
			return tx.Put("more", marker)
		}))
		secrets = append(secrets, s.Token())
		all["Session"], all["Session with another context"], all["context"] = s, s.WithContext(t.Context()), session.NewContext(t.Context(), s)
		all["context of the request"] = r.Context()
	}))
	for range 2 {
		q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		for _, id := range append([]string{idFrom("unknown"), idFrom("unknown, too")}, secrets[1:]...) {
			q.AddCookie(&http.Cookie{Name: "__Host-session", Value: id})
		}
		secrets = append(secrets, idFrom("unknown"), idFrom("unknown, too"))
		handler.ServeHTTP(httptest.NewRecorder(), q)
	}
	of, err := m.UserSessions(t.Context(), "ann")
	noError(t, err)
	if len(of) == 0 {
		t.Fatal("no session")
	}
	for _, s := range of {
		all["Session of UserSessions"] = s
	}
	loaded := m.Load(t.Context(), secrets[1])
	noError(t, loaded.Put("x", 1))
	all["Session of Load"] = loaded
	noneOf(t, secrets, all)
}

// noneOf fails the test if one of the values shows one of the secrets. A walker does not look into
// the memory of a store.
func noneOf(t *testing.T, secrets []string, values map[string]any) {
	t.Helper()
	for what, v := range values {
		for _, how := range shown(secrets, v) {
			t.Errorf("%s (%T): %s", what, v, how)
		}
	}
}

// With PHP's keys and names of locks, both of which have the id, nothing but a walker through a
// Locker finds the id: the names of its locks are no secrets to a Locker. A request waits while the
// walker reads, and the race detector would report what it changes afterwards.
func TestPHPSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = "0123456789abcdef0123456789abcdef"
		blobs := sessiontest.NewBlobs()
		blobs.Put(phpsession.DefaultPrefix+id, []byte(`a|i:1;`))
		store := memstore.New()
		l, php := padlock.New(store), padlock.New(store, padlock.KeepStoreOpen())
		defer l.Close(context.Background())
		defer php.Close(context.Background())
		var log bytes.Buffer
		var mu sync.Mutex
		var events []any
		m, err := phpsession.New(blobs, l, phpsession.Config{}, session.Exclusive, session.MaxWait(time.Second),
			session.Logger(slog.New(slog.NewTextHandler(&log, nil))),
			session.OnEvent(func(_ context.Context, e session.Event) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, e)
			}))
		noError(t, err)
		lock, err := php.Acquire(t.Context(), phpsession.DefaultPrefix+id+phpsession.DefaultLockSuffix)
		noError(t, err)
		s := m.Load(t.Context(), id)
		var busy error
		done := make(chan bool)
		go func() {
			defer close(done)
			_, busy = session.Get[int](s, "a")
		}()
		synctest.Wait()
		for _, how := range shown([]string{id}, m) {
			if !strings.Contains(how, ", walker: ") {
				t.Errorf("Manager with a waiting request: %s", how)
			}
		}
		<-done
		if !errors.Is(busy, session.ErrBusy) {
			t.Errorf("under PHP's lock: %v", busy)
		}
		noError(t, lock.Release())
		again := m.Load(t.Context(), id)
		_, err = session.Get[int](again, "a")
		noError(t, err)
		noneOf(t, []string{id}, map[string]any{"Session": s, "Session with its lock": again, "BusyError": busy, "events": events, "log": log.String()})
		again.Abandon()
	})
}

// A Session of PHP that has moved inside of an Update: the error of the store has the new key.
func TestMovedInsideAnUpdate(t *testing.T) {
	m, err := session.New(sessionstore.NewMemory())
	noError(t, err)
	s := m.Load(t.Context(), "")
	noError(t, s.Put("a", 1))
	noError(t, s.Commit(t.Context()))
	err = m.Load(t.Context(), s.Token()).Update(t.Context(), func(_ context.Context, tx *session.Session) error {
		noError(t, m.Load(t.Context(), s.Token()).Regenerate(t.Context()))
		return tx.Regenerate(t.Context())
	})
	var moved *sessionstore.MovedError
	if !errors.Is(err, session.ErrMoved) || errors.As(err, &moved) {
		t.Errorf("%T %v: the error has the new key", err, err)
	}
}

// jsonValues is a codec of scs without a deadline.
type jsonValues struct{}

func (jsonValues) Encode(_ time.Time, values map[string]any) ([]byte, error) {
	return json.Marshal(values)
}

func (jsonValues) Decode(data []byte) (deadline time.Time, values map[string]any, err error) {
	return deadline, values, json.Unmarshal(data, &values)
}

// The stores for other packages show no id either. The session of gorilla has its id in an exported
// field.
func TestSessionsOfOthers(t *testing.T) {
	store := gorillastore.New(sessionstore.NewMemory())
	q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	visit, err := store.New(q, "shop")
	noError(t, err)
	visit.Values["token"] = marker
	noError(t, store.Save(q, httptest.NewRecorder(), visit))
	noneOf(t, []string{marker, visit.ID}, map[string]any{"gorillastore.Store": store})

	ctx := scsstore.Track(t.Context())
	other := scsstore.New(sessionstore.NewMemory(), scsstore.ValueCodec(jsonValues{}))
	noError(t, other.CommitCtx(ctx, marker, []byte(`{"a":"`+marker+`"}`), time.Now().Add(time.Hour)))
	noneOf(t, []string{marker}, map[string]any{"scsstore.Store": other, "context": ctx})
}
