package all_test

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

func fileURL(dir string) string {
	return (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(dir), "/")}).String()
}

// quorumURL names a store of n directories below dir.
func quorumURL(scheme, dir string, n int) string {
	members := url.Values{}
	for i := range n {
		members.Add("store", fileURL(filepath.Join(dir, string(rune('a'+i)))))
	}
	return scheme + ":?" + members.Encode()
}

func TestStoresWork(t *testing.T) {
	for _, rawURL := range []string{
		fileURL(t.TempDir()),
		"memory:",
		quorumURL("quorum", t.TempDir(), 3),
		quorumURL("all", t.TempDir(), 2),
		"quorum:?" + url.Values{"store": {quorumURL("all", t.TempDir(), 2), fileURL(t.TempDir()), "memory:"}}.Encode(),
	} {
		store, err := all.Store(t.Context(), rawURL)
		if err != nil {
			t.Errorf("%s: %v", rawURL, err)
			continue
		}
		l := padlock.New(store)
		if err := l.Do(t.Context(), "name", func(context.Context) error { return nil }); err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("%s: close: %v", rawURL, err)
		}
	}
}

// A program starts while one of three servers is down, because a majority is enough. lazy=no
// demands that all servers are up.
func TestAQuorumOpensWithAMemberDown(t *testing.T) {
	one, two := server.Redis(t, server.RedisOptions{}), server.Redis(t, server.RedisOptions{})
	members := func(more string) string {
		return url.Values{"store": {"redis://" + one.Addr() + more, "redis://" + two.Addr() + more, "redis://127.0.0.1:1" + more}}.Encode()
	}
	l := locker(t, "quorum:?"+members(""))
	if err := l.Do(t.Context(), "name", func(context.Context) error { return nil }); err != nil {
		t.Errorf("with one of three members down: %v", err)
	}
	for _, rawURL := range []string{"quorum:?" + members("?lazy=no"), "all:?" + members("")} {
		if s, err := all.Store(t.Context(), rawURL); err == nil {
			t.Errorf("%s opens with a member down", rawURL)
			s.Close()
		}
	}
}

// The members of a quorum are the stores that its URLs name, and its scheme decides how many must
// agree. If one of three members is held, "all" is held and "quorum" is not.
func TestRulesOfQuorums(t *testing.T) {
	for scheme, want := range map[string]error{"quorum": nil, "all": padlock.ErrHeld} {
		dir := t.TempDir()
		member := locker(t, fileURL(filepath.Join(dir, "a")))
		if _, err := member.TryAcquire(t.Context(), "name"); err != nil {
			t.Fatal(err)
		}
		whole := locker(t, quorumURL(scheme, dir, 3))
		_, err := whole.TryAcquire(t.Context(), "name")
		if !errors.Is(err, want) {
			t.Errorf("%s with one of three members held: %v, want %v", scheme, err, want)
		}
	}
}

func locker(t *testing.T, rawURL string) *padlock.Locker {
	t.Helper()
	dir := t.TempDir() // it remembers no server of an earlier test
	store, err := all.Store(t.Context(), rawURL, open.StateDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	t.Cleanup(func() { _ = l.Close(t.Context()) })
	return l
}

func TestDefaultURL(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	rawURL, err := open.DefaultURL()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(rawURL, "file:///") || strings.Contains(rawURL, t.Name()) {
		t.Errorf("the default is %s: it has to be a directory that does not depend on the environment", rawURL)
	}
}

// An error says what is wrong with a URL and what to write instead.
func TestErrorsSayWhatToWrite(t *testing.T) {
	for rawURL, want := range map[string]string{
		"":                                    "no store is named",
		"/var/lib/locks":                      "for this directory write file:///var/lib/locks",
		"/var/lib/my locks":                   "write file:///var/lib/my%20locks",
		`C:\locks`:                            "for a directory on a drive write file:///C:/",
		"locks":                               "a URL such as file:///var/lib/locks",
		"nowhere://host":                      "there is no store for nowhere: URLs; there are stores for all:, dynamodb:, etcd:, file:, gs:, kubernetes:, memcached:, memory:, mongodb:, mysql+advisory:, mysql:, padlock+https:, postgres+advisory:, postgres:, quorum:, redis:, s3:, semaphore:, sqlite:, zookeeper:",
		"file://host/dir":                     "a file store's URL has no host",
		"file:///dir?colour=red":              `unknown parameter "colour"`,
		"memory:?x=y":                         "write memory: or memory:?max-ttl=10m and nothing more",
		"memory://x":                          "write memory: or memory:?max-ttl=10m and nothing more",
		"flock:///var/lib/locks":              "write file:///var/lib/locks instead, or put symfony+ before the DSN",
		"flock":                               "?world=yes",
		"in-memory":                           "write memory:",
		"redis:?host[localhost]":              "write redis://USER:PASSWORD@HOST:PORT instead, or put symfony+ before the DSN",
		"valkey://host":                       "write redis://USER",
		"valkeys://host":                      "write rediss://USER",
		"pgsql:host=localhost":                "write postgres://USER:PASSWORD@HOST/DATABASE instead",
		"postgres://u@%2frun%2Fpostgresql/db": "write the socket as a parameter: postgres:///DATABASE?host=/DIRECTORY",
		"postgres+advisory://u:p@%2Frun%2Fpg:5/db": "write the socket as a parameter: postgres:///DATABASE?host=/DIRECTORY",
		"postgres+advisory://h":                    "the connection to h may fall back to plain text",
		"mysql+advisory:host=h":                    "write mysql+advisory://USER:PASSWORD@HOST/DATABASE instead, or put symfony+ before the DSN",
		"mysql+advisory://h":                       "names no database",
		"mysql:host=localhost":                     "write mysql://USER:PASSWORD@HOST/DATABASE instead",
		"sqlite:x.db":                              "write sqlite:///PATH instead",
		"semaphore:":                               "hash=md5 (Symfony up to 6.2) or hash=xxh128 (since 6.3)",
		"semaphore":                                "write semaphore:?hash=md5 or semaphore:?hash=xxh128 instead",
		"mongodb://host":                           "names no database",
		"mongodb+srv://host":                       "names no database",
		"memcached://a,b":                          "a store of memcached has one server",
		"memcached:host":                           "write memcached://HOST:PORT instead",
		"redis://host:6379\n":                      "ends with a blank or a newline",
		" file:///var/lib/locks":                   "begins or ends with a blank",
		"redis://host:abc":                         "the port in the URL of the store is not a number",
		"localhost":                                `"localhost" is not a URL; a store is named by a URL such as file:///var/lib/locks or redis://127.0.0.1:6379`,
		"127.0.0.1:6379":                           `"127.0.0.1:6379" is not a URL`,
		"localhost:6379":                           `"localhost:6379" is not a URL`,
		"./locks":                                  `"./locks" is not a URL`,
		"~/locks":                                  `"~/locks" is not a URL`,
		"quorum:?store=file:///a&store=file:///b&store=file:///a":                       "stores 1 and 3 are the same",
		"quorum:?store=redis://h:1&store=redis://h:2&store=redis://user:pw@H:1?tls=yes": "stores 1 and 3 are the same",
		"quorum:":                        "no store is named; write quorum:?store=URL",
		"quorum://host":                  "write quorum:?store=URL",
		"quorum:?store=memory:&db=1":     "percent-encode that store's URL",
		"quorum:?store=memory:#x":        "percent-encode each URL",
		"quorum:?store=memory:&store=no": "store 2: ",
	} {
		_, err := all.Store(t.Context(), rawURL)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want it to be ErrInvalid and to say %q", rawURL, err, want)
		}
	}
}

// Every scheme that is listed has a store.
func TestOnlyWhatIsThereIsClaimed(t *testing.T) {
	for _, scheme := range names() {
		_, err := all.Store(t.Context(), scheme+"://nobody@/?nothing=here")
		if err == nil || strings.Contains(err.Error(), "there is no store") {
			t.Errorf("%s: is listed, and its store says %v", scheme, err)
		}
	}
}

func TestBetweenProcesses(t *testing.T) {
	for _, rawURL := range []string{"memory:", "quorum:?store=memory:", "all:?store=quorum:%3Fstore%3Dmemory:"} {
		_, err := all.Store(t.Context(), rawURL, open.BetweenProcesses())
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "only one process can see") {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
	_, err := all.Store(t.Context(), "nowhere:", open.BetweenProcesses())
	if strings.Contains(err.Error(), "memory:") {
		t.Errorf("%v: offers what is refused", err)
	}
}

func TestNestingIsBounded(t *testing.T) {
	rawURL := "memory:"
	for range 8 {
		rawURL = "all:?" + url.Values{"store": {rawURL}}.Encode()
	}
	if _, err := all.Store(t.Context(), rawURL); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "nested") {
		t.Errorf("eight levels: %v", err)
	}
}
