package open_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/memstore"
)

func fileURL(dir string) string {
	return (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(dir), "/")}).String()
}

// works takes and releases a lock.
func works(t *testing.T, store driver.Store, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	l := padlock.New(store)
	slow := false
	server.Eventually(t, func() error { // a member of a quorum has 500 ms to answer
		begun := time.Now()
		err = l.Do(t.Context(), "name", func(context.Context) error { return nil })
		slow = slow || time.Since(begun) > 400*time.Millisecond
		if slow && (errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrUncertain)) {
			return err
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOwnSchemes(t *testing.T) {
	for _, rawURL := range []string{
		"memory:", fileURL(t.TempDir()),
		"all:?store=" + url.QueryEscape(fileURL(t.TempDir())) + "&store=memory:",
		"quorum:?store=memory:&store=memory:&store=memory:",
	} {
		store, err := open.Store(t.Context(), rawURL)
		works(t, store, err)
	}
}

// toy is a scheme that a program could have.
func toy(name string) storeurl.Scheme {
	return storeurl.Scheme{
		Names: []string{name}, Help: "a toy", Example: name + ":",
		Open: func(context.Context, *url.URL, storeurl.Opening) (driver.Store, error) { return memstore.New(), nil },
	}
}

func TestSchemesArePassed(t *testing.T) {
	_, err := open.Store(t.Context(), "toy://host")
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "there is no store for toy: URLs; there are stores for all:, file:, memory:, quorum:") {
		t.Error(err)
	}
	store, err := open.Store(t.Context(), "toy://host", open.Schemes(toy("toy")))
	works(t, store, err)
	_, err = open.Store(t.Context(), "nowhere:", open.Schemes(toy("toy")))
	if err == nil || !strings.HasSuffix(err.Error(), ", toy:") {
		t.Errorf("%v: does not name toy:", err)
	}
	store, err = open.Store(t.Context(), "quorum:?store=toy://a&store=toy://b&store=toy://c", open.Schemes(toy("toy")))
	works(t, store, err)
	store, err = open.Store(t.Context(), "file://host/directory", open.Schemes(toy("file"))) // the toy replaces the store of files
	works(t, store, err)
}

// Members with another prefix or another database are other places, however these two are spelt.
func TestSameMembers(t *testing.T) {
	for second, same := range map[string]bool{
		"toy://h?prefix=ab": true, "toy://H?prefix=ab": true,
		"toy://h?prefix=a&db=b": false, "toy://h?db=ab": false, "toy://h/1?prefix=ab": false,
	} {
		store, err := open.Store(t.Context(), "all:?store="+url.QueryEscape("toy://h?prefix=ab")+"&store="+url.QueryEscape(second), open.Schemes(toy("toy")))
		if same && errors.Is(err, driver.ErrInvalid) {
			continue
		}
		if same {
			t.Errorf("%s: %v, want ErrInvalid", second, err)
		}
		works(t, store, err)
	}
}

// The options of a program reach the store, and members of a quorum are opened lazily.
func TestOpeningReachesTheStore(t *testing.T) {
	var got []storeurl.Opening
	s := toy("toy")
	s.Open = func(_ context.Context, _ *url.URL, o storeurl.Opening) (driver.Store, error) {
		o.Member = nil
		got = append(got, o)
		return memstore.New(), nil
	}
	for _, rawURL := range []string{"toy:", "quorum:?store=toy://a", "all:?store=toy://a"} {
		store, err := open.Store(t.Context(), rawURL, open.Schemes(s), open.StateDir("/state"), open.ForgetSoon(), open.Lenient())
		works(t, store, err)
	}
	for i, lazy := range []bool{false, true, false} {
		want := storeurl.Opening{StateDir: "/state", ForgetSoon: true, Lenient: true, Lazy: lazy}
		if len(got) != 3 || got[i].StateDir != want.StateDir || got[i].ForgetSoon != want.ForgetSoon || got[i].Lenient != want.Lenient || got[i].Lazy != want.Lazy {
			t.Errorf("opening %d of 3: %+v, want %+v", i, got, want)
		}
	}
}

const unset = "\x00"

// setenv sets a variable, or removes it if the value is unset.
func setenv(t *testing.T, name, value string) {
	t.Helper()
	t.Setenv(name, "") // the test restores what was there before
	if value != unset {
		t.Setenv(name, value)
	} else if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
}

func TestFromEnv(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", home)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("memory:\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ store, file, from string }{
		{unset, unset, ""}, {fileURL(dir), unset, "PADLOCK_STORE"}, {unset, secret, "PADLOCK_STORE_FILE"},
		{"required", secret, "PADLOCK_STORE_FILE"},
	} {
		setenv(t, "PADLOCK_STORE", c.store)
		setenv(t, "PADLOCK_STORE_FILE", c.file)
		if _, from, err := open.EnvURL(); err != nil || from != c.from {
			t.Errorf("%+v: %q, %v", c, from, err)
		}
		store, err := open.FromEnv(t.Context())
		works(t, store, err)
	}
}

// FromEnv remembers servers in the user's directory, unless the program names another one.
func TestFromEnvStateDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", home)
	t.Setenv("PADLOCK_STORE", "toy:")
	usual, err := open.DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	s := toy("toy")
	s.Open = func(_ context.Context, _ *url.URL, o storeurl.Opening) (driver.Store, error) {
		got = o.StateDir
		return memstore.New(), nil
	}
	store, err := open.FromEnv(t.Context(), open.Schemes(s))
	if works(t, store, err); got != usual {
		t.Errorf("the directory is %q, want %q", got, usual)
	}
	store, err = open.FromEnv(t.Context(), open.Schemes(s), open.StateDir("/elsewhere"))
	if works(t, store, err); got != "/elsewhere" {
		t.Errorf("the directory is %q, want /elsewhere", got)
	}
}

func TestFromEnvErrors(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ store, file, text, want string }{
		{"memory:", "f", "memory:", "PADLOCK_STORE and PADLOCK_STORE_FILE are both set"},
		{"canary", unset, "", "PADLOCK_STORE: "},
		{unset, "nowhere", "", "cannot be read"},
		{unset, ".", "", "cannot be read"},
		{unset, "f", "\n", "is empty"},
		{unset, "f", "memory:\ncanary", "must hold one line"},
		{unset, "f", "canary" + strings.Repeat("x", 1<<17), "must hold one line"},
		{unset, "f", "redis://:canary/@host", "PADLOCK_STORE_FILE: "},
		{"", unset, "", "PADLOCK_STORE is set but empty"},
		{"", "f", "memory:", "PADLOCK_STORE is set but empty"},
		{unset, "", "", "PADLOCK_STORE_FILE is set but empty"},
		{"memory:", "", "", "PADLOCK_STORE_FILE is set but empty"},
		{"required", unset, "", "no store is named"},
	} {
		if c.text != "" {
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.file != "" && c.file != unset {
			c.file = filepath.Join(dir, c.file)
		}
		setenv(t, "PADLOCK_STORE", c.store)
		setenv(t, "PADLOCK_STORE_FILE", c.file)
		_, err := open.FromEnv(t.Context())
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Two stores on one server have different names. No name contains a secret, also not one in a
// parameter that is unknown because it is misspelt.
func TestRedacted(t *testing.T) {
	for url, want := range map[string]string{
		"toy://h": "toy://h",
		"toy://user:canary@h/2?prefix=shop:a/&x=y":                                              "toy://h/2?prefix=shop:a/",
		"toy://h?layout=symfony&prefix=&db_table=locks&pasword=canary&sentinel-password=canary": "toy://h?db_table=locks&layout=symfony",
		"toy://h?prefix=%1b[2J%0acanary%26layout":                                               "toy://h?prefix=%1B%5B2J%0Acanary%26layout",
		"toy:?hash=md5":                        "toy:?hash=md5",
		"all:?store=toy://:canary@a?prefix=p:": "all of toy://a?prefix=p:",
		"canary":                               "a store whose URL cannot be read",
	} {
		if got := open.Redacted(url, open.Schemes(toy("toy"))); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}
