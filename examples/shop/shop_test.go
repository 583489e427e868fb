package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/sessionstore"
	"github.com/padlock-go/padlock/stampede"
	"github.com/padlock-go/padlock/stores/memstore"
)

// visitor is a browser with one session.
type visitor struct {
	t    *testing.T
	base string
	http *http.Client
}

func openShop(t *testing.T) (*shop, *visitor) {
	t.Helper()
	return openOn(t, sessionstore.NewMemory())
}

func openOn(t *testing.T, store sessionstore.Store) (*shop, *visitor) {
	t.Helper()
	locker := padlock.New(memstore.New())
	s, err := newShop(locker, store, stampede.NewMemory(stampede.MaxValues(100)))
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

var hiddenTotal = regexp.MustCompile(`name="total" value="(\d+)"`)

// total is the form of the order, with the total that the visitor sees.
func (v *visitor) total() url.Values {
	v.t.Helper()
	match := hiddenTotal.FindStringSubmatch(v.body(v.http.Get(v.base + "/")))
	if match == nil {
		v.t.Fatal("there is nothing to order")
	}
	return url.Values{"total": {match[1]}}
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
	v.post("/cart/brass/remove", nil)
	v.sees("/cart", `<span class="count">50</span>`)
}

// TestOrderedOnce clicks on the button more than once.
func TestOrderedOnce(t *testing.T) {
	t.Parallel()
	s, v := openShop(t)
	v.post("/cart/brass", nil)
	v.post("/cart/safe", nil)
	total := v.total()
	var all sync.WaitGroup
	var mu sync.Mutex
	var pages string
	for range 3 {
		all.Go(func() {
			page := v.post("/order", total)
			mu.Lock()
			defer mu.Unlock()
			pages += page
		})
	}
	all.Wait()
	if n := s.placed.Load(); n != 1 || !strings.Contains(pages, "Order 1 is placed: 2 things") {
		t.Errorf("placed %d times: %s", n, pages)
	}
	v.sees("/", "Nothing in it yet")
	if page := v.post("/order", total); !strings.Contains(page, notices["empty"]) || s.placed.Load() != 1 {
		t.Errorf("placed %d times; an empty cart: %s", s.placed.Load(), page)
	}
}

// TestOrderAtThePricesShown: an order is charged at the prices that the visitor has seen, even if
// the catalogue has other prices by now. If the cart has changed since the visitor saw it, nothing
// is ordered.
func TestOrderAtThePricesShown(t *testing.T) {
	t.Parallel()
	s, v := openShop(t)
	v.post("/cart/brass", nil)
	total := v.total()
	for range 3 {
		newPrices(t, s)
	}
	v.sees("/cart", `name="total" value="`+total.Get("total")+`"`)
	if page := v.post("/order", total); !strings.Contains(page, "Order 1 is placed: 1 things for € "+euros(total.Get("total"))) {
		t.Errorf("the total was %s: %s", total.Get("total"), page)
	}
	v.post("/cart/brass", nil)
	total = v.total()
	v.post("/cart/key", nil) // in another tab
	if page := v.post("/order", total); !strings.Contains(page, "have changed") || s.placed.Load() != 1 {
		t.Errorf("a cart that was not seen, placed %d times: %s", s.placed.Load(), page)
	}
}

// newPrices makes the catalogue anew until the brass padlock has another price.
func newPrices(t *testing.T, s *shop) {
	t.Helper()
	price := func() int {
		c, err := s.catalogue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c.Products[0].Cents
	}
	for before := price(); price() == before; {
		if err := s.catalogues.Invalidate(t.Context(), catalogueKey); err != nil {
			t.Fatal(err)
		}
	}
}

func euros(cents string) string { return cents[:len(cents)-2] + "." + cents[len(cents)-2:] }

// full is a store that can be made to refuse every change, or to be out of reach.
type full struct {
	*sessionstore.Memory
	refuses atomic.Bool
	away    atomic.Bool
}

func (f *full) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if f.refuses.Load() {
		return sessionstore.Result{}, session.ErrUnavailable
	}
	return f.Memory.Commit(ctx, key, c)
}

func (f *full) Load(ctx context.Context, key string) (sessionstore.Record, error) {
	if f.away.Load() {
		return sessionstore.Record{}, session.ErrUnavailable
	}
	return f.Memory.Load(ctx, key)
}

// TestPageWithoutSessions: while the sessions cannot be reached, the page shows what there is to
// buy. The cart is not lost.
func TestPageWithoutSessions(t *testing.T) {
	t.Parallel()
	store := &full{Memory: sessionstore.NewMemory()}
	_, v := openOn(t, store)
	v.post("/cart/brass", nil)
	store.away.Store(true)
	v.sees("/", "Brass padlock", "Your cart cannot be reached")
	if page := v.body(v.http.Get(v.base + "/")); strings.Contains(page, "Nothing in it yet") || strings.Contains(page, "Your name") {
		t.Error("the page shows a cart or a login")
	}
	store.away.Store(false)
	v.sees("/", `<span class="count">1</span>`)
}

// TestOrderCountsWhenSaved: if the session cannot be saved, the answer is an
// error, the cart is as it was, and there is no order.
func TestOrderCountsWhenSaved(t *testing.T) {
	t.Parallel()
	store := &full{Memory: sessionstore.NewMemory()}
	s, v := openOn(t, store)
	v.post("/cart/brass", nil)
	total := v.total()
	store.refuses.Store(true)
	res, err := v.http.PostForm(v.base+"/order", total)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if n := s.placed.Load(); n != 0 || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("placed %d times, answered %d", n, res.StatusCode)
	}
	store.refuses.Store(false)
	v.sees("/cart", `<span class="count">1</span>`)
	if v.post("/order", total); s.placed.Load() != 1 {
		t.Errorf("then placed %d times", s.placed.Load())
	}
}

// TestCareless shows why commits have conditions. Without them, all requests are answered OK, but
// most of their changes are lost.
func TestCareless(t *testing.T) {
	t.Parallel()
	_, v := openShop(t)
	var all sync.WaitGroup
	for _, p := range products {
		all.Go(func() { v.post("/careless/"+p.SKU, nil) })
	}
	all.Wait()
	page := v.body(v.http.Get(v.base + "/cart"))
	if !strings.Contains(page, `class="count"`) || strings.Contains(page, `<span class="count">6</span>`) {
		t.Errorf("nothing is lost: %s", page)
	}
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
	if page := v.post("/rush", nil); !strings.Contains(page, "The supplier was asked once") {
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
		{"/careless/nothing", "same-origin", http.StatusNotFound},
		{"/login?name=" + strings.Repeat("x", 41), "same-origin", http.StatusBadRequest},
		{"/cart/brass", "cross-site", http.StatusForbidden},
		{"/nothing", "same-origin", http.StatusNotFound},
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

// TestServeEnds: when its context ends, the server stops and closes all that it has opened.
func TestServeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, "127.0.0.1:0", "") }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
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
