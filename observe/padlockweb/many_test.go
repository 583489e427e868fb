package padlockweb_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
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

// No name that is held is denied, however many there are.
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
