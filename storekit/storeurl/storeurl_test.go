package storeurl_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

type option string

var form = storeurl.Form[option]{
	Schemes: []string{"my", "mys"}, Example: "my://HOST/ROOT", Hosts: true, Others: []string{"dial"},
	Params: map[string]storeurl.Param[option]{
		"lazy":          storeurl.IfYes(option("lazy")),
		"fences":        storeurl.IfNo(option("no fences")),
		"layout":        storeurl.OneOf("queue", "symfony", option("symfony")),
		"root":          storeurl.Text(func(s string) option { return option("root " + s) }),
		"timeout":       storeurl.Duration(func(d time.Duration) option { return option(d.String()) }),
		"tls":           storeurl.Yes[option],
		"ca":            storeurl.Keep[option],
		"cert":          storeurl.Keep[option],
		"key":           storeurl.Keep[option],
		"server-name":   storeurl.Keep[option],
		"password-file": storeurl.PasswordFile[option],
	},
}

func read(t *testing.T, text string) (*storeurl.Reading[option], error) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return form.Read(u)
}

func TestRead(t *testing.T) {
	r, err := read(t, "my://u:secret@h1,h2:7/x?lazy=yes&fences=no&layout=symfony&root=%2Fa&timeout=2s&dial=5&tls=yes")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.Opts)
	if want := []option{"2s", "lazy", "no fences", "root /a", "symfony"}; !slices.Equal(r.Opts, want) {
		t.Errorf("options %q, want %q", r.Opts, want)
	}
	if r.URL.RawQuery != "dial=5" || r.Values["tls"] != "yes" {
		t.Errorf("left in the URL: %q; kept: %q", r.URL.RawQuery, r.Values)
	}
	login, err := r.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	if user, password, err := login(t.Context()); user != "u" || password != "secret" || err != nil {
		t.Errorf("login %q %q %v", user, password, err)
	}
	if got, err := storeurl.Addresses(r.URL.Host, "9"); !slices.Equal(got, []string{"h1:9", "h2:7"}) || err != nil {
		t.Errorf("addresses %q, %v", got, err)
	}
	if r, err = read(t, "mys://h?lazy=no&fences=yes&layout=queue"); err != nil || len(r.Opts) > 0 {
		t.Errorf("the usual values: options %q, %v", r.Opts, err)
	}
}

// Each of these URLs is refused, and no error has the password of the URL.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"other://secret@h":                        "begins with my:",
		"my:secret":                               "has the form",
		"my://:secret@/x":                         "has the form",
		"my://u:secret@h#x":                       "has the form",
		"my://u:secret@h?a=%zz":                   "cannot be read",
		"my://u:secret@h?nothing=1":               `no parameter "nothing"; there are ca, cert, dial`,
		"my://u:secret@h?lazy=yes&lazy=no":        "more than once",
		"my://u:secret@h?dial=1&dial=2":           "more than once",
		"my://u:secret@h?lazy=maybe":              "lazy: it is yes or no",
		"my://u:secret@h?tls=on":                  "tls: it is yes or no",
		"my://u:secret@h?layout=own":              "layout: it is queue or symfony",
		"my://u:secret@h?timeout=5":               "a duration such as 10s",
		"my://u:secret@h?ca=":                     "needs a value",
		"my://u:secret@h?password-file=":          "path of a file",
		"my://u:secret@h?password-file=secretive": "in the URL and in a file",
	} {
		_, err := read(t, text)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has the password: %v", text, err)
		}
	}
	for _, text := range []string{"my://:secret@h", "my://h?password-file=f", "my://u@h"} {
		r, err := read(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Credentials(); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: half a login: %v", text, err)
		}
	}
	for _, hosts := range []string{"", ":7", "a,,b", "a,"} {
		if got, err := storeurl.Addresses(hosts, "9"); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("addresses of %q: %q, %v", hosts, got, err)
		}
	}
}

// The file is read when the password is asked for, each time anew. One newline at its end does not
// belong to the password.
func TestPasswordFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	r, err := read(t, "my://u@h?password-file="+file)
	if err != nil {
		t.Fatalf("a URL whose file does not exist yet: %v", err)
	}
	if _, err := r.Password(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{"a": "a", "b\n": "b", "c\r\n": "c", "d\n\n": "d\n", " e ": " e ", "": "", "\n": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Password(); got != want || (want == "") != (err != nil) {
			t.Errorf("a file with %q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestTLS(t *testing.T) {
	for text, want := range map[string]string{
		"my://h?ca=f":                   "you need mys: for TLS",
		"my://h?tls=yes&cert=f":         "name both files",
		"my://h?tls=yes&key=f":          "name both files",
		"my://h?tls=yes&ca=%2Fnowhere":  "ca:",
		"my://h?tls=yes&cert=f&key=f":   "cert and key:",
		"my://h?tls=yes&server-name=db": "",
	} {
		r, err := read(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if err = r.CheckTLS(r.Values["tls"] == "yes", "mys:"); err == nil {
			c, failed := r.TLS()
			if err = failed; err == nil && c.ServerName != "db" {
				t.Errorf("server name %q", c.ServerName)
			}
		}
		if want == "" && err != nil || want != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestDatabaseDSN(t *testing.T) {
	for _, c := range []struct{ dsn, socket, want string }{
		{"pgsql:host=db;port=7;dbname=shop;user=u;password=p", "", "pg://u:p@db:7/shop"},
		{"pgsql:host=/run/pg;port=7;dbname=shop", "", "pg:///shop?host=%2Frun%2Fpg&port=7"},
		{"pgsql://u:p@db/shop?serverVersion=15&charset=utf8", "", "pg://u:p@db/shop"},
		{"pgsql:host=localhost;port=7; dbname=shop;persistent=1", "", "pg://localhost:7/shop"},
		{"mysql:unix_socket=/run/my;dbname=shop;charset=utf8mb4", "unix_socket", "pg:///shop?socket=%2Frun%2Fmy"},
		{"mysql:host=localhost;port=7;unix_socket=/run/my;dbname=shop", "unix_socket", "pg:///shop?socket=%2Frun%2Fmy"},
		{"mysql:port=7;unix_socket=/run/my;dbname=shop", "unix_socket", "pg:///shop?socket=%2Frun%2Fmy"},
		{"mysql:host=db;port=7;unix_socket=/run/my;dbname=shop", "unix_socket", "pg://db:7/shop"},
		{"mysql:host=localhost;port=3306;dbname=shop", "unix_socket", "pg://localhost:3306/shop"},
		{"mysql://u@localhost:7/shop?unix_socket=/run/my", "unix_socket", "pg://u@/shop?socket=%2Frun%2Fmy"},
		{"mysql://u@db/shop?unix_socket=/run/my", "unix_socket", "pg://u@db/shop"},
	} {
		u, err := storeurl.FromDatabaseDSN("pg", c.dsn, c.socket)
		if err != nil || u.String() != c.want {
			t.Errorf("%s: %v, %v; want %s", c.dsn, u, err, c.want)
		}
	}
	for dsn, socket := range map[string]string{
		"pgsql:host":                        "",
		"pgsql://u:a/b@db/shop":             "",
		"pgsql://u@db/shop?a=%zz":           "",
		"mysql:host=localhost;port=3307":    "unix_socket", // PHP ignores the port
		"mysql:host=Localhost;port=3307":    "unix_socket",
		"mysql:port=3307;dbname=d":          "unix_socket",
		"mysql://u@localhost:3307/d":        "unix_socket",
		"mysql://u@LOCALHOST:3307/d":        "unix_socket",
		"mysql:host=localhost;port=3306333": "unix_socket",
	} {
		if u, err := storeurl.FromDatabaseDSN("pg", dsn, socket); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, %v", dsn, u, err)
		}
	}
	u := &url.URL{Scheme: "pg", Host: "db"}
	if got, err := storeurl.InSymfonyLayout(u, url.Values{}); err != nil || got.String() != "pg://db?layout=symfony" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := storeurl.InSymfonyLayout(u, url.Values{"layout": {"own"}}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%v, %v", got, err)
	}
}

type store struct{ driver.Store }

// Open is called with the options of the opening, and a failure is no store that is not nil.
func TestOpens(t *testing.T) {
	var got []option
	fail := errors.New("no")
	open := storeurl.Opens(func(_ context.Context, u *url.URL, opts ...option) (*store, error) {
		got = opts
		if u.Host == "" {
			return nil, fail
		}
		return &store{}, nil
	}, option("lazy"), "lenient")
	for _, c := range []struct {
		url  string
		how  storeurl.Opening
		want []option
	}{
		{"my://h", storeurl.Opening{}, nil},
		{"my://h", storeurl.Opening{Lazy: true}, []option{"lazy"}},
		{"my://h?lazy=no", storeurl.Opening{Lazy: true}, nil},
		{"my://h?lazy=no", storeurl.Opening{Lenient: true}, []option{"lazy", "lenient"}},
	} {
		u, _ := url.Parse(c.url)
		if s, err := open(t.Context(), u, c.how); s == nil || err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s, %+v: %v, %v; options %q, want %q", c.url, c.how, s, err, got, c.want)
		}
	}
	if s, err := open(t.Context(), &url.URL{Scheme: "my"}, storeurl.Opening{}); s != nil || err != fail {
		t.Errorf("a failure: %v, %v", s, err)
	}
}
