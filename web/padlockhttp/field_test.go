package padlockhttp_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/web/padlockhttp"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// A repeat may come by another way, whose client reads other encodings than the first one. So the
// handler inside answers without one.
func TestCompressedAnswers(t *testing.T) {
	gzipped := func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") }
	plain := func(*http.Request) {}
	for name, order := range map[string][]func(*http.Request){"gzip first": {gzipped, plain}, "gzip second": {plain, gzipped}} {
		t.Run(name, func(t *testing.T) {
			s, _ := newShop(t)
			inside := compressing(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "paid") })
			s.serve = inside.ServeHTTP
			for _, change := range order {
				if w := s.pay("k", "7 EUR", change); w.Body.String() != "paid" || w.Header().Get("Content-Encoding") != "" {
					t.Errorf("%q, %v", w.Body, w.Header())
				}
			}
			if s.runs.Load() != 1 {
				t.Errorf("%d runs", s.runs.Load())
			}
		})
	}
	t.Run("outside", func(t *testing.T) { // each client gets what it asks for
		s, _ := newShop(t)
		outside := compressing(s.ServeHTTP)
		for _, change := range []func(*http.Request){plain, gzipped, plain} {
			r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("7 EUR"))
			r.Header.Set("Idempotency-Key", "k")
			change(r)
			w := httptest.NewRecorder()
			outside.ServeHTTP(w, r)
			body := w.Body.Bytes()
			if r.Header.Get("Accept-Encoding") == "gzip" {
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatal(err)
				}
				body, _ = io.ReadAll(z)
			}
			if string(body) != "charge 1: 7 EUR" {
				t.Errorf("%v gets %q", r.Header, body)
			}
		}
	})
}

// compressing returns a layer that compresses what next writes, if the client reads gzip.
func compressing(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		next(squeezed{w, z}, r)
	})
}

type squeezed struct {
	http.ResponseWriter
	to io.Writer
}

func (s squeezed) Write(p []byte) (int, error) { return s.to.Write(p) }

// The handler refuses before its work. The client signs in, or waits, and comes again with its key.
func TestARefusedRequestRunsAgain(t *testing.T) {
	for _, status := range []int{401, 403, 408, 425, 429} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s, _ := newShop(t)
			s.serve = func(w http.ResponseWriter, _ *http.Request) {
				if s.runs.Load() == 1 {
					w.WriteHeader(status)
				}
			}
			if w := s.pay("k", "7 EUR"); w.Code != status {
				t.Error(w.Code)
			}
			if w := s.pay("k", "7 EUR"); w.Code != http.StatusOK {
				t.Errorf("the repeat gets %d", w.Code)
			}
		})
	}
}

// A browser chooses a new boundary when it sends a form again. The repeat gets the first answer.
func TestAFormWithAnotherBoundary(t *testing.T) {
	s, _ := newShop(t)
	send := func(key, boundary, amount string) *httptest.ResponseRecorder {
		body := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n" + amount + "\r\n--" + boundary + "--\r\n"
		return s.pay(key, body, func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary) })
	}
	first := send("k", "one", "5")
	for _, boundary := range []string{"one", "two"} {
		if w := send("k", boundary, "5"); w.Code != first.Code || w.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("boundary %s: %d %s", boundary, w.Code, w.Body)
		}
	}
	if w := send("k", "two", "6"); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("another amount: %d %s", w.Code, w.Body)
	}
	if w := s.pay("k", "--two\r\n"); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("no form: %d %s", w.Code, w.Body)
	}
	if n := s.runs.Load(); n != 1 {
		t.Errorf("the handler ran %d times", n)
	}
}

// An answer that an older padlock has kept, without the print of the form, is for the same bytes.
func TestAFormOfAnOlderVersion(t *testing.T) {
	s, _ := newShop(t)
	s.Results = olderResults{s.Results}
	for i, boundary := range []string{"one", "one", "two"} {
		body := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n5\r\n--" + boundary + "--\r\n"
		w := s.pay("k", body, func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary) })
		if want := []int{201, 201, 422}[i]; w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
}

// olderResults gives answers without the print of the form.
type olderResults struct{ padlockhttp.Results }

func (o olderResults) Get(ctx context.Context, key string) (sessionstore.Blob, error) {
	b, err := o.Results.Get(ctx, key)
	b.Data = regexp.MustCompile(`"form":"[^"]*",`).ReplaceAll(b.Data, nil)
	return b, err
}

// A layer outside sets a cookie for each answer. A repeat gets the one of its own request, next to the
// cookie of the handler. The cookie of a session inside is the handler's: a repeat gets it again.
func TestCookiesOfLayers(t *testing.T) {
	s, _ := newShop(t)
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
	}
	for _, csrf := range []string{"csrf=1", "csrf=2"} {
		w := httptest.NewRecorder()
		w.Header().Set("Set-Cookie", csrf)
		r := httptest.NewRequest(http.MethodPost, "/charges", nil)
		r.Header.Set("Idempotency-Key", "k")
		s.ServeHTTP(w, r)
		if got, want := w.Header()["Set-Cookie"], []string{csrf, "session=1"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Memory is for one server: it keeps whatever clients send, and another server does not see it.
func TestMemoryHasNoBound(t *testing.T) {
	s, _ := newShop(t)
	m := s.Results.(*padlockhttp.Memory)
	s.serve = func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<10)) }
	for n := range 2000 {
		s.pay(fmt.Sprint(n), "")
	}
	if m.Len() != 2000 {
		t.Errorf("%d answers are kept", m.Len())
	}
	other, _ := newShop(t)
	if other.pay("1", ""); other.runs.Load() != 1 {
		t.Error("the other server has the answer")
	}
}
