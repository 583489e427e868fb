package mongostore_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/mongostore"
)

// open opens a store without a request.
func open(t *testing.T, raw string) error {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mongostore.FromURL(t.Context(), u, mongostore.Lazy())
	if err == nil {
		s.Close()
	}
	return err
}

func TestURLs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		"mongodb://h/shop": "",
		"mongodb://a:1,b:2,c:3/shop?replicaSet=rs0&collection=locks":      "",
		"mongodb://user:p%40ss@h/shop?authSource=admin&lazy=no":           "",
		"mongodb://user@h/shop?password-file=" + file:                     "",
		"mongodb://h/shop?layout=symfony&appName=x&directConnection=true": "",
		"mongodb://h":                                     "names no database",
		"mongodb:///shop":                                 "has the form",
		"mongodb://h/a.b":                                 "names no database",
		"mongodb://h/shop?colour=red":                     `no parameter "colour"`,
		"mongodb://h/shop?w=1":                            "decides this itself",
		"mongodb://h/shop?readPreference=nearest":         "decides this itself",
		"mongodb://h/shop?layout=php":                     "padlock or symfony",
		"mongodb://h/shop?lazy=1":                         "yes or no",
		"mongodb://h/shop?lazy=yes&lazy=no":               "more than once",
		"mongodb://h/shop?collection=$x":                  "cannot have this name",
		"mongodb://h/shop?collection=system.x":            "cannot have this name",
		"mongodb://user@h/shop":                           "has no password",
		"mongodb://:secret@h/shop":                        "without a user",
		"mongodb://u:secret@h/shop?password-file=" + file: "leave one of them out",
		"mongodb://u:1/secret@h/shop":                     "written %23 %2F",
		"mongodb://h/shop?maxPoolSize=secret":             "refuses the connection string",
	} {
		switch err := open(t, raw); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", raw, err)
		case want != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v; want %q", raw, err, want)
		case err != nil && strings.Contains(raw, "@") && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error has the password: %v", raw, err)
		}
	}
	if err := open(t, "mongodb://u@h/shop?password-file=/nowhere"); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "password-file") {
		t.Errorf("a password file that is missing: %v", err)
	}
}

func TestDSNs(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"mongodb://h/shop?collection=locks":                                 "mongodb://h/shop?collection=locks&layout=symfony",
		"mongodb://u:p@a,b:2/shop?w=majority&journal=true&collection=locks": "mongodb://u:p@a,b:2/shop?collection=locks&layout=symfony",
		"mongodb+srv://u:p@h.example/shop?collection=c&tls=true":            "mongodb+srv://u:p@h.example/shop?collection=c&layout=symfony&tls=true",
		"mongodb://h/shop":                                 "",
		"mongodb://h?collection=locks":                     "",
		"mongodb:h/shop?collection=locks":                  "",
		"mongodb://h/shop?collection=locks&layout=padlock": "",
		"mongodb://u:a/secret@h/shop?collection=locks":     "",
	} {
		u, err := mongostore.Scheme().FromSymfony(dsn)
		switch {
		case want == "" && (!errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v", dsn, err)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%s: %v, %v; want %s", dsn, u, err, want)
		}
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][]string{
		"mongodb://h/shop":             {"h:27017"},
		"mongodb://a,b:2/s?tls=true":   {"a:27017", "b:2"},
		"mongodb+srv://h.example/shop": nil,
	} {
		u, _ := url.Parse(raw)
		got, encrypted := mongostore.Scheme().Servers(u)
		if !slices.Equal(got, want) || encrypted != !strings.HasSuffix(raw, "://h/shop") {
			t.Errorf("%s: %q, %v", raw, got, encrypted)
		}
	}
}

// Promises and pages say that the store is experimental.
func TestExperimental(t *testing.T) {
	t.Parallel()
	scheme := mongostore.Scheme()
	if notes := strings.Join(scheme.Guarantees().Notes, " "); !strings.Contains(notes, "Experimental") || !strings.Contains(scheme.Help, "experimental") {
		t.Errorf("%s; %s", scheme.Help, notes)
	}
	for _, opts := range [][]mongostore.Option{nil, {mongostore.SymfonyLayout()}} {
		s, err := mongostore.Open(context.Background(), mongostore.Config{URI: "mongodb://h/", Database: "d", Collection: "c"}, append(opts, mongostore.Lazy())...)
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(s.Guarantees().Notes, " "); !strings.Contains(notes, "Experimental") {
			t.Error(notes)
		}
		s.Close()
	}
}
