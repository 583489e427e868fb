package memcachestore_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memcachestore"
)

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"memcached://localhost?lazy=yes":                     "",
		"memcached:///run/memcached.sock?lazy=yes&prefix=a":  "",
		"memcached://[::1]:7?lazy=yes&layout=symfony":        "",
		"memcached://h?lazy=yes&layout=symfony&prefix=shop:": "",
		"memcached://a,b?lazy=yes":                           "one server",
		"memcached:":                                         "names no host",
		"memcached://h/path?lazy=yes":                        "has the form",
		"memcached://h?lazy=maybe":                           "lazy: it is yes or no",
		"memcached://h?layout=flat":                          "layout: it is",
		"memcached://h?colour=red":                           `no parameter "colour"`,
		"memcached://h?lazy=yes&lazy=no":                     "more than once",
		"memcached://h?lazy=yes&prefix=a%20b":                "Prefix has",
		"memcached://h?lazy=yes&ca=/x":                       "need tls=yes",
		"memcached://h?lazy=yes&tls=yes&ca=/does/not/exist":  "ca:",
		"memcached://u:secret@h?lazy=yes&password-file=/x":   "in the URL and in a file",
		"memcached://u:sec%0d%0aret@h?lazy=yes":              "no newline",
		"other://h":                                          "begins with memcached:",
	} {
		s, err := memcachestore.FromURL(t.Context(), parse(t, text))
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

// The store makes no promise that memcached cannot keep.
func TestBestEffort(t *testing.T) {
	g := memcachestore.Scheme().Guarantees()
	if g.SurvivesRestart != driver.PromiseNo || g.SurvivesFailover != driver.PromiseNo || g.SafeEviction != driver.PromiseNo || g.Fence != driver.FenceNone {
		t.Errorf("%+v", g)
	}
	if !strings.Contains(strings.Join(g.Notes, " "), "Best effort") {
		t.Errorf("the notes do not say that the locks are best effort: %q", g.Notes)
	}
}
