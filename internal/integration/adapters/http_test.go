package adapters

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
	"github.com/padlock-go/padlock/web/padlockhttp"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

// results opens the place where answers are kept: Redis if the locks are there, else SQLite.
func results(p *process) (padlockhttp.Results, error) {
	u, err := url.Parse(p.url)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "redis" {
		redis, err := redissession.FromURL(context.Background(), u)
		if err != nil {
			return nil, err
		}
		return redis.Blobs(), nil
	}
	db, err := sql.Open("sqlite", filepath.Join(p.dir, "answers.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	store, err := sqlsession.New(db, sqlsession.SQLite)
	if err != nil {
		return nil, err
	}
	return store.Blobs(), store.CreateTable(context.Background())
}

// serveShop is a server that charges a card for each checkout.
func serveShop(p *process) error {
	kept, err := results(p)
	if err != nil {
		return err
	}
	s := httptest.NewServer(shop(p.locker, kept, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = note(p.dir, string(body))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charged %s", body)
	})))
	defer s.Close()
	p.say(s.URL)
	p.next()
	return nil
}

// checkout sends a request until it has an answer other than 409, as a client does that follows
// Retry-After, but without the pause.
func checkout(t *testing.T, at, key, body string) (*http.Response, string) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/carts/7/checkout", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("X-User", "ann")
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return nil, ""
		}
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil {
			t.Error(err)
		}
		if reply.StatusCode != http.StatusConflict {
			return reply, string(text)
		}
		if reply.Header.Get("Retry-After") == "" || reply.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("409 with %v", reply.Header)
		}
	}
	t.Error("for a minute, all answers were 409")
	return nil, ""
}

// Two servers in two processes get ten requests with the same key. The card is charged once, and
// all clients get the same answer.
func TestOneChargeOnTwoServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) {
		servers := []string{start(t, "http", url, dir).hear(), start(t, "http", url, dir).hear()}
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if reply, text := checkout(t, servers[i%2], `"k1"`, "7-EUR"); reply == nil || reply.StatusCode != http.StatusCreated || text != "charged 7-EUR" {
					t.Errorf("%v %q", reply, text)
				}
			})
		}
		wg.Wait()
		if charges := notes(t, dir); len(charges) != 1 {
			t.Errorf("charged %d times", len(charges))
		}
		if reply, _ := checkout(t, servers[1], `"k1"`, "8-EUR"); reply == nil || reply.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("the same key for another request: %v", reply)
		}
		if reply, _ := checkout(t, servers[1], `"k2"`, "8-EUR"); reply == nil || reply.StatusCode != http.StatusCreated {
			t.Errorf("another key: %v", reply)
		}
	})
}

// The lock of the cart is lost during the work: the context of the request ends, and the answer is
// not kept.
func TestALossDuringACheckout(t *testing.T) {
	t.Parallel()
	l, script := padlocktest.New(t)
	runs := 0
	s := httptest.NewServer(shop(l, &padlockhttp.Memory{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if runs++; runs > 1 {
			return
		}
		script.Lose("cart:7")
		<-r.Context().Done()
		if err := context.Cause(r.Context()); !errors.Is(err, padlock.ErrLost) {
			t.Error(err)
		}
	})))
	defer s.Close()
	for _, want := range []int{http.StatusInternalServerError, http.StatusOK} {
		if reply, _ := checkout(t, s.URL, "k", ""); reply == nil || reply.StatusCode != want {
			t.Errorf("%v, want %d", reply, want)
		}
	}
}
