package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// visitor is a browser with one session.
type visitor struct {
	t    *testing.T
	base string
	http *http.Client
}

func openShop(t *testing.T) (*shop, *visitor) {
	t.Helper()
	locker := padlock.New(memstore.New())
	s, err := newShop(locker, sessionstore.NewMemory(), stampede.NewMemory(stampede.MaxValues(100)))
	if err != nil {
		t.Fatal(err)
	}
	s.supplier.delay = 0
	srv := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		srv.Close()
		s.catalogues.Close(context.Background())
		locker.Close(context.Background())
	})
	return s, newVisitor(t, srv.URL)
}

func newVisitor(t *testing.T, base string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t, base, &http.Client{Jar: jar}}
	v.sees("/", "Brass padlock", "Nothing in it yet")
	return v
}

// post sends a form and follows it home. It may be called by many goroutines.
func (v *visitor) post(path string, form url.Values) string {
	v.t.Helper()
	res, err := v.http.PostForm(v.base+path, form)
	return v.body(res, err)
}

func (v *visitor) body(res *http.Response, err error) string {
	v.t.Helper()
	if err != nil {
		v.t.Error(err)
		return ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		v.t.Errorf("%s: %d %s %v", res.Request.URL, res.StatusCode, text, err)
	}
	return string(text)
}

func (v *visitor) sees(path string, texts ...string) {
	v.t.Helper()
	page := v.body(v.http.Get(v.base + path))
	for _, text := range texts {
		if !strings.Contains(page, text) {
			v.t.Errorf("%s does not show %q: %s", path, text, page)
		}
	}
}

func TestManyRequestsOneCart(t *testing.T) {
	t.Parallel()
	_, v := openShop(t)
	var all sync.WaitGroup
	for range 10 {
		for _, p := range products {
			all.Go(func() { v.post("/cart/"+p.SKU, nil) })
		}
	}
	all.Wait()
	v.sees("/cart", `<span class="count">60</span>`, "× 10")
}

// TestOrderedOnce clicks on the button more than once.
func TestOrderedOnce(t *testing.T) {
	t.Parallel()
	_, v := openShop(t)
	v.post("/cart/brass", nil)
	v.post("/cart/safe", nil)
	var all sync.WaitGroup
	var mu sync.Mutex
	var pages string
	for range 3 {
		all.Go(func() {
			page := v.post("/order", nil)
			mu.Lock()
			defer mu.Unlock()
			pages += page
		})
	}
	all.Wait()
	for text, want := range map[string]int{"Order 1 is placed: 2 things for € 143.90": 1, "is placed": 1, "The cart is empty": 2} {
		if n := strings.Count(pages, text); n != want {
			t.Errorf("%q is there %d times, want %d: %s", text, n, want, pages)
		}
	}
	v.sees("/", "Nothing in it yet")
}

func TestLogin(t *testing.T) {
	t.Parallel()
	_, v := openShop(t)
	v.post("/cart/key", nil)
	if page := v.post("/login", url.Values{"name": {" Bo <3 "}}); !strings.Contains(page, "Hello, <b>Bo &lt;3</b>") || !strings.Contains(page, "× 1") {
		t.Error(page)
	}
	newVisitor(t, v.base) // a new visitor sees none of this
	if page := v.post("/logout", nil); strings.Contains(page, "Bo") || !strings.Contains(page, "Nothing in it yet") {
		t.Error(page)
	}
}

func TestRush(t *testing.T) {
	t.Parallel()
	s, v := openShop(t)
	before := s.supplier.asked.Load()
	if page := v.post("/rush", nil); !strings.Contains(page, ": 200. Questions to the supplier: 1.") {
		t.Error(page)
	}
	if n := s.supplier.asked.Load() - before; n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	_, v := openShop(t)
	for _, c := range []struct {
		path, site string
		status     int
	}{
		{"/cart/nothing", "same-origin", http.StatusNotFound},
		{"/login?name=" + strings.Repeat("x", 41), "same-origin", http.StatusBadRequest},
		{"/cart/brass", "cross-site", http.StatusForbidden},
	} {
		req, err := http.NewRequest(http.MethodPost, v.base+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Sec-Fetch-Site", c.site)
		res, err := v.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%s from %s: %d, want %d", c.path, c.site, res.StatusCode, c.status)
		}
	}
	v.sees("/cart", "Nothing in it yet")
}

// TestLogOutEverywhere: a visitor with two browsers logs in twice, and out of both at once. Another
// visitor stays logged in.
func TestLogOutEverywhere(t *testing.T) {
	t.Parallel()
	_, laptop := openShop(t)
	phone, other := newVisitor(t, laptop.base), newVisitor(t, laptop.base)
	for _, v := range []*visitor{laptop, phone} {
		v.post("/login", url.Values{"name": {"Bo"}})
		v.sees("/", "Hello, <b>Bo</b>")
	}
	other.post("/login", url.Values{"name": {"Cy"}})
	if page := laptop.post("/logout-everywhere", nil); strings.Contains(page, "Hello") {
		t.Error("the visitor is still logged in here")
	}
	phone.sees("/", "Your name")
	other.sees("/", "Hello, <b>Cy</b>")
}
