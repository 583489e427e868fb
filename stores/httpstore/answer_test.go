package httpstore_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/httpstore"
)

// Each answer has one meaning for the caller. An answer that does not come from padlock, but from
// something on the way, is never a refusal or a loss.
func TestAnswers(t *testing.T) {
	const held = `{"error":"held","detail":"x","holders":[{"label":"l","until_ms":500}]}`
	for _, c := range []struct {
		status int
		body   string
		want   error
	}{
		{200, `{"fence":7,"valid_ms":900}`, nil},
		{200, `<html>welcome</html>`, driver.ErrUncertain},
		{200, `{}`, driver.ErrUncertain},
		{202, `{"retry_ms":1}`, driver.ErrUncertain},
		{307, ``, driver.ErrUnavailable},
		{400, `{"error":"invalid","detail":"x"}`, driver.ErrInvalid},
		{400, ``, driver.ErrUnavailable},
		{403, `{"error":"forbidden"}`, driver.ErrUnavailable},
		{404, `not found`, driver.ErrUnavailable},
		{408, ``, driver.ErrUncertain},
		{409, held, driver.ErrHeld},
		{409, `conflict`, driver.ErrUncertain},
		{410, `{"error":"lost"}`, driver.ErrLost},
		{410, `{"error":"expired"}`, driver.ErrUncertain},
		{410, `gone`, driver.ErrUncertain},
		{429, `{"error":"too_many"}`, driver.ErrUnavailable},
		{500, held, driver.ErrUncertain},
		{501, `{"error":"unsupported"}`, errors.ErrUnsupported},
		{502, ``, driver.ErrUncertain},
		{503, `{"error":"unavailable"}`, driver.ErrUnavailable},
		{503, `{"error":"closing"}`, driver.ErrUnavailable},
		{503, `no server is available`, driver.ErrUncertain},
		{504, `{"error":"uncertain"}`, driver.ErrUncertain},
		{504, ``, driver.ErrUncertain},
	} {
		s := answers(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		})
		_, err := s.Acquire(t.Context(), request("name", one))
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%d %s: %v, want %v", c.status, c.body, err, c.want)
		}
		for _, other := range []error{driver.ErrHeld, driver.ErrLost, driver.ErrExpired, driver.ErrUnavailable} {
			if other != c.want && errors.Is(err, other) {
				t.Errorf("%d %s: %v is %v", c.status, c.body, err, other)
			}
		}
	}
}

// JSON that is not padlock's is no answer, even with the status 200: nothing was granted, released
// or broken for certain, and a name is not free.
func TestForeignJSON(t *testing.T) {
	for _, body := range []string{`{}`, `{"status":"ok"}`, `[]`, `null`, `{"outcome":"ok","holders":null,"locks":[{}],"valid_ms":null,"fence":null,"store":""}`} {
		foreign := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
		s := answers(t, foreign)
		ctx := t.Context()
		_, acquire := s.Acquire(ctx, request("name", one))
		_, extend := s.Extend(ctx, "name", one, 0)
		_, release := s.Release(ctx, "name", one, 0)
		_, inspect := s.Inspect(ctx, "name")
		_, list := s.List(ctx, "")
		_, id := s.StoreID(ctx)
		for name, err := range map[string]error{"Acquire": acquire, "Extend": extend, "Release": release} {
			if !errors.Is(err, driver.ErrUncertain) {
				t.Errorf("%s after %s: %v", name, body, err)
			}
		}
		for name, err := range map[string]error{"Inspect": inspect, "List": list, "StoreID": id} {
			if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
				t.Errorf("%s after %s: %v", name, body, err)
			}
		}
		if _, err := httpstore.Open(ctx, httpstore.Config{Servers: []string{at(t, foreign)}}); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Open after %s: %v", body, err)
		}
		breaks, err := httpstore.Open(ctx, httpstore.Config{Servers: []string{at(t, func(w http.ResponseWriter, r *http.Request) {
			if isFor(r, "store") {
				io.WriteString(w, `{"store":"memory","fence":"durable","break":true}`)
				return
			}
			foreign(w, r)
		})}})
		if err != nil {
			t.Fatal(err)
		}
		if fence, err := breaks.Break(ctx, "name", 7); !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("Break after %s: %d, %v", body, fence, err)
		}
		breaks.Close()
	}
}

// answers returns a store whose only server answers with f.
func answers(t *testing.T, f http.HandlerFunc, opts ...httpstore.Option) *httpstore.Store {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	s, err := httpstore.Open(t.Context(), httpstore.Config{Servers: []string{server.URL + "/base"}}, append(opts, httpstore.Lazy())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// The header has the token, read anew for each request, and the path of the URL comes first. A
// token of a lock that no server accepts is sent as its hash.
func TestRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen.Store(r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body))
		io.WriteString(w, `{"fence":7,"valid_ms":900}`)
	}))
	defer server.Close()
	s, err := httpstore.FromURL(t.Context(), parse(t, "padlock+"+server.URL+"/base/?lazy=yes&token-file="+file))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask := func(name, token string) string {
		if _, err := s.Acquire(t.Context(), request(name, token)); err != nil {
			return err.Error()
		}
		return seen.Load().(string)
	}
	for _, c := range []struct{ token, name, want string }{
		{one, "näme", `/base/v1/acquire Bearer first {"name":"näme","token":"` + one + `"`},
		{one, "a\xff", `{"name_base64":"Yf8=","token"`},
		{one, "a\ufffd", `{"name_base64":"Ye+/vQ==","token"`},
		{"short", "name", `"token":"sha256:f9b0078b5df596d2ea19010c001bbd009e651de2c57e8fb7e355f31eb9d3f739"`},
		{one + " ", "name", `"token":"sha256:`},
	} {
		if got := ask(c.name, c.token); !strings.Contains(got, c.want) {
			t.Errorf("%q, %q: %s", c.name, c.token, got)
		}
	}
	if err := os.WriteFile(file, []byte("second\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask("name", one); !strings.Contains(got, "Bearer second") {
		t.Error(got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), request("name", one)); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("without the file: %v", err)
	}
}

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var quiet = log.New(io.Discard, "", 0)

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"padlock+https://h?lazy=yes":                             "",
		"padlock+https://a,b:7925/locks?lazy=yes":                "",
		"padlock+https://h?lazy=yes&server-name=x":               "",
		"padlock+http://localhost:7925?lazy=yes":                 "",
		"padlock+http://[::1]:7925?lazy=yes":                     "",
		"padlock+http://127.0.0.9?lazy=yes":                      "",
		"padlock+http://h?lazy=yes":                              "needs https",
		"padlock+http://localhost.example.com?lazy=yes":          "needs https",
		"padlock+http://localhost,h?lazy=yes":                    "needs https",
		"padlock+http://h?lazy=yes&plaintext=yes":                "",
		"padlock+http://h?lazy=yes&plaintext=":                   "plaintext: it is yes or no",
		"padlock+http://localhost?lazy=yes&ca=/x":                "need padlock+https://",
		"padlock+https://h?lazy=yes&ca=/does/not/exist":          "ca:",
		"padlock+https://h?lazy=yes&cert=/x":                     "name both files",
		"padlock+https://secret@h?lazy=yes":                      "token-file=FILE",
		"padlock+https://u:secret@h?lazy=yes&token-file=/x":      "token-file=FILE",
		"padlock+https:///?lazy=yes":                             "has the form",
		"padlock+https://h?colour=red":                           `no parameter "colour"`,
		"padlock+https://h?token-file=":                          "path of a file",
		"padlock+https://a,,b?lazy=yes":                          "HOST or HOST:PORT",
		"https://h?lazy=yes":                                     "begins with padlock+https:",
		"padlock+https://h?lazy=yes&token-file=/a&token-file=/b": "more than once",
	} {
		s, err := httpstore.FromURL(t.Context(), parse(t, text))
		switch {
		case err == nil:
			s.Close()
			if want != "" {
				t.Errorf("%s: no error", text)
			}
		case want == "" || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// A server whose certificate is wrong has got nothing.
func TestWrongCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	s, err := httpstore.Open(t.Context(), httpstore.Config{Servers: []string{server.URL}}, httpstore.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Acquire(context.Background(), request("name", one)); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Acquire: %v", err)
	}
}
