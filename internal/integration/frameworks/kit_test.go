package frameworks

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultWriter, gin.DefaultErrorWriter = io.Discard, io.Discard
	status := m.Run()
	if portsDir != "" {
		os.RemoveAll(portsDir)
	}
	os.Exit(status)
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A framework makes a handler as its page shows. The route /panic, which a test adds, writes to the
// session and panics; a recovery handler inside of the session answers 500.
type framework struct {
	name string
	with func(*session.Manager) http.Handler
}

var frameworks = []framework{
	{"nethttp", func(m *session.Manager) http.Handler {
		router := http.NewServeMux()
		router.Handle("POST /panic", recovery(http.HandlerFunc(panics)))
		return withNetHTTP(router, m)
	}},
	{"chi", func(m *session.Manager) http.Handler {
		router := chi.NewMux()
		handler := withChi(router, m)
		router.Post("/panic", panics)
		return handler
	}},
	{"mux", func(m *session.Manager) http.Handler {
		router := mux.NewRouter()
		router.Use(recovery)
		router.HandleFunc("/panic", panics)
		return withGorillaMux(router, m)
	}},
	{"gin", func(m *session.Manager) http.Handler {
		router := gin.New()
		handler := withGin(router, m)
		router.POST("/panic", gin.WrapF(panics))
		return handler
	}},
	{"echo", func(m *session.Manager) http.Handler {
		router := echo.New()
		router.Logger.SetOutput(io.Discard)
		handler := withEcho(router, m)
		router.POST("/panic", echo.WrapHandler(http.HandlerFunc(panics)))
		return handler
	}},
}

// inEach runs a test for each framework.
func inEach(t *testing.T, test func(t *testing.T, f framework)) {
	t.Parallel()
	for _, f := range frameworks {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

// recovery is the usual recovery handler of programs without a framework.
func recovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				http.Error(w, "the program has a bug", http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func panics(_ http.ResponseWriter, r *http.Request) {
	session.From(r.Context()).Put("half", "written")
	panic("a bug")
}

// newManager returns sessions in memory, for plain HTTP.
func newManager(t *testing.T, store sessionstore.Store, opts ...session.Option) *session.Manager {
	t.Helper()
	locker := padlock.New(memstore.New())
	t.Cleanup(func() { noError(t, locker.Close(context.Background())) }) // t.Context has ended by then
	opts = append(opts, session.Locker(locker), session.Cookie{Insecure: true}, session.MaxWait(time.Minute))
	m, err := session.New(store, opts...)
	noError(t, err)
	return m
}

// browser keeps cookies.
type browser struct {
	t   *testing.T
	url string
	*http.Client
}

func open(t *testing.T, h http.Handler) *browser {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	noError(t, err)
	return &browser{t, server.URL, &http.Client{Jar: jar, Transport: server.Client().Transport}}
}

// post sends a form and returns the answer.
func (b *browser) post(path string, form url.Values) (status int, text string) {
	b.t.Helper()
	res, err := b.PostForm(b.url+path, form)
	if err != nil {
		b.t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Error(err)
	}
	return res.StatusCode, strings.TrimSpace(string(body))
}

// must sends a form whose answer is 200.
func (b *browser) must(path string, form url.Values) string {
	b.t.Helper()
	status, text := b.post(path, form)
	if status != http.StatusOK {
		b.t.Errorf("%s: %d %s", path, status, text)
	}
	return text
}

// crowd sends n forms at once.
func (b *browser) crowd(n int, path func(i int) string) {
	b.t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { b.must(path(i), url.Values{"text": {fmt.Sprint(i)}}) })
	}
	all.Wait()
}
