package httpstore_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/memstore"
)

// rights gives each client the rights that are its token.
func rights(r *http.Request) padlockapi.Visitor {
	words := r.Header.Get("Authorization")
	has := func(word string) bool { return strings.Contains(words, word) }
	return padlockapi.Visitor{Name: "ann", Read: has("read"), Acquire: has("acquire"), Ask: has("ask"), Break: has("break")}
}

// remote is a server whose requests are counted by path.
type remote struct {
	server *overhttptest.Service
	status atomic.Int64 // the requests to /v1/status
	others atomic.Int64
}

// startRemote starts a server for the store. It must run in a bubble of synctest.
func startRemote(t *testing.T, store driver.Store) *remote {
	t.Helper()
	api := padlockapi.Handler(store, padlockapi.Authorize(rights), padlockapi.AllowBreak())
	s := &remote{server: overhttptest.Start(nil)}
	s.server.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isFor(r, "status") {
			s.status.Add(1)
		} else {
			s.others.Add(1)
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.server.Stop()
		api.Close()
	})
	return s
}

// locker returns a Locker that takes its locks at the server, with the rights.
func (s *remote) locker(t *testing.T, rights string) *padlock.Locker {
	t.Helper()
	store, err := httpstore.Open(t.Context(), httpstore.Config{
		Servers: []string{"http://127.0.0.1"}, Transport: s.server.Front().Transport(), Token: func() (string, error) { return rights, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// asked waits until the holder of the lock in ctx is asked, and returns the question.
func asked(t *testing.T, ctx context.Context) padlock.Question {
	t.Helper()
	select {
	case <-padlock.Asked(ctx):
	case <-time.After(time.Minute):
		t.Error("the holder was not asked")
	}
	q, _ := padlock.QuestionFrom(ctx)
	return q
}

// A holder is asked over HTTP, wherever it took its lock. The question names the process that asks.
func TestAsk(t *testing.T) {
	for _, place := range []string{"over HTTP", "in the store"} {
		t.Run(place, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := memstore.New()
				s := startRemote(t, memory.Open())
				holder := s.locker(t, "acquire,read")
				if place == "in the store" {
					holder = padlock.New(memory)
					t.Cleanup(func() { holder.Close(context.Background()) })
				}
				asker := s.locker(t, "acquire,read,ask")
				err := holder.Do(t.Context(), "name", func(ctx context.Context) error {
					fence, _ := padlock.FenceFrom(ctx)
					sent, err := asker.Ask(t.Context(), "name", "deploy")
					if err != nil || sent.Fence != fence {
						t.Errorf("Ask: %+v, %v; the fence is %d", sent, err, fence)
					}
					q := asked(t, ctx)
					if q.Fence != fence || !strings.HasPrefix(q.Reason, "deploy "+sent.By.Host+"/") || !strings.Contains(q.Reason, " (ann, ") {
						t.Errorf("the question is %+v", q)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Without the right to ask, nobody is asked.
func TestAskNeedsTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startRemote(t, memstore.New())
		holder := s.locker(t, "acquire,read")
		err := holder.Do(t.Context(), "name", func(ctx context.Context) error {
			_, err := holder.Ask(t.Context(), "name", "deploy")
			if !errors.Is(err, padlock.ErrUnavailable) || !strings.Contains(err.Error(), "the right ask is needed") {
				t.Errorf("Ask: %v", err)
			}
			select {
			case <-padlock.Asked(ctx):
				t.Error("the holder is asked")
			case <-time.After(5 * time.Second):
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A holder that may not read cannot find out that it is asked, and is told so.
func TestAskedNeedsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder := startRemote(t, memstore.New()).locker(t, "acquire,ask,break")
		err := holder.Do(t.Context(), "name", func(ctx context.Context) error {
			if padlock.Asked(ctx) != nil {
				t.Error("Asked has a channel that nobody closes")
			}
			if _, err := holder.Ask(t.Context(), "name", ""); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Ask: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A holder that looks sends one request a second. One that does not look sends none.
func TestAskedCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startRemote(t, memstore.New())
		holder := s.locker(t, "acquire,read")
		for _, looks := range []int64{0, 10} {
			before, others := s.status.Load(), s.others.Load()
			err := holder.Do(t.Context(), "name", func(ctx context.Context) error {
				if looks > 0 {
					padlock.Asked(ctx)
				}
				<-time.After(9900 * time.Millisecond)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if n, more := s.status.Load()-before, s.others.Load()-others; n != looks || more > 4 {
				t.Errorf("%d looks and %d other requests in ten seconds, want %d looks", n, more, looks)
			}
		}
	})
}

// The list has the questions, which servers show with the names.
func TestListHasQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startRemote(t, memstore.New())
		l := s.locker(t, "acquire,read,ask")
		err := l.Do(t.Context(), "name", func(ctx context.Context) error {
			if _, err := l.Ask(t.Context(), "name", "deploy"); err != nil {
				return err
			}
			all, err := l.List(t.Context(), "")
			if err != nil || len(all) != 2 {
				t.Fatalf("the list is %+v, %v", all, err)
			}
			q, ok := padlock.QuestionIn(all[1])
			fence, _ := padlock.FenceFrom(ctx)
			if !ok || q.Name != "name" || q.Fence != fence || q.By.Host == "" || q.At.IsZero() || !strings.HasPrefix(q.Reason, "deploy ") {
				t.Errorf("the question in the list is %+v", q)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
