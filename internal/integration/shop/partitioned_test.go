package shop_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/integration/browser"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// TestPartitioned embeds a site in a page of another site, and logs in and out there. Later the
// site switches Partitioned on, while the browser still has the cookie of before.
func TestPartitioned(t *testing.T) {
	t.Parallel()
	store := sessionstore.NewMemory()
	var site atomic.Value
	use := func(partitioned bool) {
		m, err := session.New(store, session.Cookie{SameSite: http.SameSiteNoneMode, Partitioned: partitioned})
		if err != nil {
			t.Fatal(err)
		}
		site.Store(m.Middleware(http.HandlerFunc(visit)))
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { site.Load().(http.Handler).ServeHTTP(w, r) }))
	defer srv.Close()
	url := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1) // another site than 127.0.0.1, and as good as one with TLS
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<body><iframe src=%q></iframe><script>addEventListener("message", e => document.body.dataset.user = e.data)</script>`, url+r.URL.Path)
	}))
	defer outer.Close()
	chromium := browser.Start(t)
	shows := func(tab *browser.Tab, page, user string) {
		t.Helper()
		tab.Go(page)
		tab.Until(fmt.Sprintf(`document.body.dataset.user === %q`, user))
	}

	use(true)
	framed := chromium.OpenPrivate(outer.URL + "/")
	for _, step := range []struct{ path, user string }{
		{"/login", "ann"}, {"/", "ann"}, {"/remember", "ann"}, {"/logout", "nobody"}, {"/", "nobody"}, {"/login", "ann"},
	} {
		shows(framed, outer.URL+step.path, step.user)
	}
	shows(framed, url+"/", "nobody") // alone, the site has another cookie

	use(false)
	direct := chromium.OpenPrivate(url + "/login")
	shows(direct, url+"/", "ann")
	use(true)
	for _, step := range []struct{ path, user string }{
		{"/", "ann"}, {"/login", "ann"}, {"/", "ann"}, {"/logout", "nobody"}, {"/", "nobody, with a cookie"}, // the one of before
		{"/login", "ann"}, {"/", "ann"},
	} {
		shows(direct, url+step.path, step.user)
	}
}

// visit logs in or out, or only shows who is logged in.
func visit(w http.ResponseWriter, r *http.Request) {
	s := session.From(r.Context())
	var err error
	switch r.URL.Path {
	case "/login":
		if err = s.Regenerate(r.Context()); err == nil {
			err = s.Put("user", "ann")
		}
	case "/remember":
		err = s.Remember(24 * time.Hour)
	case "/logout":
		err = s.Destroy(r.Context())
	}
	user := "nobody"
	if err == nil && r.URL.Path != "/logout" {
		user = session.GetOr(s, "user", "nobody")
	}
	if user == "nobody" && r.URL.Path == "/" && r.Header["Cookie"] != nil {
		user = "nobody, with a cookie"
	}
	if err != nil {
		user = err.Error()
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, `<body data-user=%q>%s<script>parent.postMessage(document.body.dataset.user, "*")</script>`, user, strings.Join(r.Header["Cookie"], " "))
}
