package padlockweb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// listed returns the names that /api/locks lists, with its summary.
func (s *site) listed(path string, change ...func(*http.Request)) (names []string, held int) {
	s.t.Helper()
	var got struct {
		Names   []struct{ Name, State string }
		Summary struct{ Held int }
	}
	if err := json.Unmarshal([]byte(s.get(path, change...).text), &got); err != nil {
		s.t.Fatal(err)
	}
	for _, l := range got.Names {
		if l.State == "held" {
			names = append(names, l.Name)
		}
	}
	return names, got.Summary.Held
}

// No name that is held is denied, however many there are. With 10 names that have a past, 510 have
// rows, and the store is asked for any other.
func TestManyNames(t *testing.T) {
	s := newSampledSite(t, []sampler.Option{sampler.MaxNames(10)}, padlockweb.Accept(tokens(t)), padlockweb.ReadWithoutToken())
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("invoice:%d", i))
	}
	s.lock(names...)
	for _, name := range []string{"invoice:123", "invoice:299"} {
		if got, _ := s.listed("api/locks?n=" + name); len(got) != 1 || got[0] != name {
			t.Errorf("/api/locks?n=%s lists %q", name, got)
		}
		if got, _ := s.listed("api/locks?q=" + name); len(got) != 1 {
			t.Errorf("/api/locks?q=%s lists %q", name, got)
		}
		if page := s.get("?q=" + name).text; !strings.Contains(page, ">"+name+"<") {
			t.Errorf("the filter does not find %s", name)
		}
	}
	if got, held := s.listed("api/locks"); len(got) != 300 || held != 300 {
		t.Errorf("%d names are listed, and the summary counts %d; want 300", len(got), held)
	}
	if figures := s.get("metrics").text; !strings.Contains(figures, `padlock_sampled_names{store="memory",group="invoice"} 300`) {
		t.Errorf("the figures: %s", figures)
	}
	if page := s.get("").text; !strings.Contains(page, "290 names have no past here") {
		t.Error("the page does not say that most names have no past")
	}

	names = nil
	for i := range 300 {
		names = append(names, fmt.Sprintf("more:%d", i))
	}
	s.lock(names...)
	if got, _ := s.listed("api/locks"); len(got) != 510 {
		t.Errorf("%d names are listed, want 510", len(got))
	}
	for _, name := range names {
		if got, _ := s.listed("api/locks?n=" + name); len(got) != 1 {
			t.Fatalf("/api/locks?n=%s lists %q", name, got)
		}
	}
	if got, _ := s.listed("api/locks?n=more:1", with(shopOnly)); len(got) != 0 {
		t.Errorf("a visitor who may see shop/ only sees %q", got)
	}
	s.searchFinds(names)
	if page := s.get("").text; !strings.Contains(page, "90 more names") {
		t.Error("the page does not say that there are more names")
	}
	if figures := s.get("metrics").text; !strings.Contains(figures, `padlock_store_complete{store="memory"} 0`) {
		t.Errorf("the figures: %s", figures)
	}
}

// searchFinds checks that the filter searches the store for those of the names that have no row.
func (s *site) searchFinds(names []string) {
	t := s.t
	t.Helper()
	for _, name := range names {
		if page := s.get("?q=" + name[:len(name)-1]).text; !strings.Contains(page, `data-name="`+name+`"`) {
			t.Fatalf("a search for the beginning of %s does not find it", name)
		}
	}
	for _, name := range []string{"more:7", "more:299"} {
		if got, _ := s.listed("api/locks?q=" + name[2:]); !slices.Contains(got, name) {
			t.Errorf("a search for a part of %s finds %q", name, got)
		}
		if page := s.get("?q="+name, with(shopOnly)).text; strings.Contains(page, "data-name") {
			t.Errorf("a visitor who may see shop/ only finds %s: %s", name, page)
		}
	}
	for _, token := range []string{"", shopOnly} {
		if page := s.get("?q=there-is-none", with(token)).text; !strings.Contains(page, "Nothing that is held matches") {
			t.Errorf("%q: a search of the whole store does not say that nothing matches: %s", token, page)
		}
	}
}

// slowList is a store that lists only names with a prefix in time.
type slowList struct{ *memstore.Store }

func (s slowList) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if prefix == "" {
		<-ctx.Done()
		return nil, driver.ErrUnavailable
	}
	return s.Store.List(ctx, prefix)
}

// A store that takes too long to list all names is searched for those that begin with the filter,
// and the page says that there may be others.
func TestSearchTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := padlock.New(store)
		defer l.Close(context.WithoutCancel(t.Context()))
		watcher := sampler.New(l, sampler.MaxNames(1))
		for i := range 60 {
			if _, err := l.TryAcquire(t.Context(), fmt.Sprint("n", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := watcher.Sample(t.Context()); err != nil {
			t.Fatal(err)
		}
		slow := padlock.New(slowList{store}, padlock.KeepStoreOpen())
		defer slow.Close(context.WithoutCancel(t.Context()))
		web := padlockweb.Handler(slow, padlockweb.Sampler(watcher), padlockweb.ReadWithoutToken())
		defer web.Close()
		for i := range 60 {
			w := httptest.NewRecorder()
			began := time.Now()
			web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://localhost/?q=n%d", i), nil))
			page := w.Body.String()
			if !strings.Contains(page, fmt.Sprintf(`data-name="n%d"`, i)) || !strings.Contains(page, "because the store could not be searched") {
				t.Fatalf("a search for n%d: %s", i, page)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("the search took %s", took)
			}
			w = httptest.NewRecorder()
			web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://localhost/api/locks?q=n%d", i), nil))
			if text := w.Body.String(); !strings.Contains(text, `"incomplete":"There may be more names that match, because the store could not be searched`) {
				t.Fatalf("the JSON of a search for n%d: %s", i, text)
			}
		}
	})
}

// A page has at most 500 rows, also that of a name with many readers.
func TestManyHolders(t *testing.T) {
	s := newSite(t, padlockweb.ReadWithoutToken())
	for range 503 {
		if _, err := s.locker.TryAcquire(t.Context(), "catalogue", padlock.Shared(), padlock.NoRenewal()); err != nil {
			t.Fatal(err)
		}
	}
	s.sample()
	page := s.get("name?n=catalogue").text
	if n := strings.Count(page, "<tr"); n != 501 {
		t.Errorf("the page has %d rows, want 500 and the heads", n)
	}
	if !strings.Contains(page, "503 holders") || !strings.Contains(page, "Not shown: 3 more holders. padlock status lists them all.") {
		t.Error("the page does not say that there are more holders")
	}
}

// nameless is a store that also has locks of which only the file is known.
type nameless struct{ *memstore.Store }

func (s nameless) List(ctx context.Context, prefix string) ([]driver.State, error) {
	all, err := s.Store.List(ctx, prefix)
	for i := range 60 {
		if strings.HasPrefix("", prefix) {
			all = append(all, driver.State{Path: fmt.Sprintf("/locks/file-%d", i), Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: i}}}})
		}
	}
	return all, err
}

// The rows that a search finds in the store are sorted with the others, and locks without a name
// are told apart by their files.
func TestFoundRows(t *testing.T) {
	store := nameless{memstore.New()}
	l := padlock.New(store)
	defer l.Close(context.WithoutCancel(t.Context()))
	for i := range 60 {
		if _, err := l.TryAcquire(t.Context(), fmt.Sprintf("n%02d", i)); err != nil {
			t.Fatal(err)
		}
	}
	watcher := sampler.New(l, sampler.MaxNames(1))
	if _, err := watcher.Sample(t.Context()); err != nil {
		t.Fatal(err)
	}
	web := padlockweb.Handler(l, padlockweb.Sampler(watcher), padlockweb.ReadWithoutToken())
	defer web.Close()
	get := func(query string) (names []string) {
		w := httptest.NewRecorder()
		web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/locks?"+query, nil))
		var got struct{ Names []struct{ Name, Path string } }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for _, n := range got.Names {
			names = append(names, n.Name+n.Path)
		}
		return names
	}
	if names := get("q=n&sort=name"); len(names) != 60 || !slices.IsSorted(names) {
		t.Errorf("%d names are found: %s", len(names), names)
	}
	if files := get("q=/locks/file"); len(files) != 60 {
		t.Errorf("%d files are found: %s", len(files), files)
	}
}
