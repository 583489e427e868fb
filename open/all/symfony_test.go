package all_test

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// A DSN of Symfony's means the place where PHP keeps its locks.
func TestSymfonyDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"redis://localhost":                               "redis://localhost:6379/",
		"redis://localhost/":                              "redis://localhost:6379/",
		"redis://secret@example.com:1234/13":              "redis://example.com:1234/13",
		"rediss://user:p%40ss@example.com":                "rediss://example.com:6379/",
		"redis://:s/e?c#r@example.com/1":                  "redis://example.com:6379/1",
		"redis://[::1]/1":                                 "redis://[::1]:6379/1",
		"redis:///run/redis.sock":                         "redis+unix:///run/redis.sock",
		"redis://secret@/run/redis.sock/13":               "redis+unix:///run/redis.sock",
		"redis:?host[localhost]":                          "redis://localhost:6379/",
		"redis:?host[localhost:1234]&dbindex=2":           "redis://localhost:1234/2",
		"redis:?host[/run/redis.sock:]":                   "redis+unix:///run/redis.sock",
		"redis:?host[a]&host[b:1]&redis_cluster=1":        "redis+cluster://a:6379,b:1/",
		"redis:?host[a:1]&host[b:1]&redis_sentinel=main":  "redis+sentinel://a:1,b:1/main/",
		"redis://a:1/2?host[b:1]&sentinel_master=main":    "redis+sentinel://a:1,b:1/main/2",
		"redis://localhost?lazy=1&timeout=5&persistent=1": "redis://localhost:6379/",
		"flock:///var/lib/locks":                          "file:///var/lib/locks",

		"pgsql:host=h;port=5;dbname=d;user=u;password=a?b;layout=symfony": "postgres://h:5/d?layout=symfony",
		"pgsql:host=/run/pg;dbname=d?layout=symfony":                      "postgres:///d?host=/run/pg&layout=symfony",
		"pgsql://u:p%40@h/d?serverVersion=15&layout=symfony73":            "postgres://h/d?layout=symfony73",
		"postgresql://u@h:5/d?layout=symfony":                             "postgres://h:5/d?layout=symfony",
		"mysql:host=h;dbname=d?layout=symfony&db_table=l":                 "mysql://h/d?db_table=l&layout=symfony",
		"mysql2://u@h:3/d?serverVersion=8&charset=utf8&layout=symfony73":  "mysql://h:3/d?layout=symfony73",
		"pdo-mysql://h/d?layout=symfony":                                  "mysql://h/d?layout=symfony",
		"sqlite:/var/lib/shop.db?layout=symfony73":                        "sqlite:///var/lib/shop.db?layout=symfony73",
		"sqlite:////var/lib/shop.db?layout=symfony73":                     "sqlite:///var/lib/shop.db?layout=symfony73",
		"flock:///var/lib/my locks%20":                                    "file:///var/lib/my%20locks%2520",
	} {
		if got := open.Redacted("symfony+"+dsn, every()); strings.TrimSuffix(got, "/") != strings.TrimSuffix(want, "/") {
			t.Errorf("symfony+%s is %s, want %s", dsn, got, want)
		}
	}
}

func TestSymfonyErrors(t *testing.T) {
	for dsn, want := range map[string]string{
		"":                                           "it can share symfony+flock: or symfony+mariadb+advisory: or",
		"flock+remove:///d":                          "give PHP flock:///DIRECTORY",
		"mysql+advisory:host":                        "NAME=VALUE",
		"semaphore":                                  "symfony+semaphore:?hash=xxh128",
		"dynamodb://host/table":                      "does not know this DSN",
		"pgsql://host/db":                            "write layout=symfony73 if PHP has Symfony 7.3 or older, and layout=symfony if it has 7.4",
		"mysql:host=h;dbname=d":                      "write layout=symfony73 if PHP has Symfony 7.3 or older, and layout=symfony if it has 7.4",
		"sqlite:/x.db?layout=symfony74":              "write layout=symfony73 if PHP has Symfony 7.3 or older, and layout=symfony if it has 7.4",
		"sqlite:///x.db?layout=symfony":              "write four slashes",
		"sqlite::memory:?layout=symfony":             "does not begin at the root",
		"mysql:host=h;secret?layout=symfony":         "not NAME=VALUE",
		"mysql://u:s/e@h/d?layout=symfony":           "written %2F",
		"mysql://h/d?layout=symfony&db_table=x;y":    "cannot be read",
		"mysql://h/d?layout=symfony&db_table=x-y":    "cannot be the name of a table",
		"mysql://h/d?layout=symfony&colour=red":      `there is no parameter "colour"`,
		"mysql://h/d?layout=symfony&schema=x":        `there is no parameter "schema"`,
		"in-memory":                                  "no other process sees",
		"flock://locks":                              "begin at the root",
		"flock:///locks?colour=red":                  `unknown parameter "colour"`,
		"flock:///locks?x=%zz":                       "cannot be read",
		"redis://host/main":                          "the number of a database",
		"redis:host":                                 "two slashes",
		"redis://":                                   "names no host",
		"redis://host?colour=red":                    `there is no parameter "colour"`,
		"redis://host?x=%zz":                         "cannot be read",
		"redis://host?layout=string":                 "does not go with symfony+",
		"redis://host/1?dbindex=2":                   "two databases",
		"redis://host?host[other]":                   "which padlock does not share",
		"redis://host?host[/s:]":                     "a socket and hosts",
		"redis:?host[/s:]&host[/u:]":                 "two sockets",
		"redis:?host[a]=weight":                      "has no value",
		"redis://a?redis_cluster=yes":                "0 or 1",
		"redis://a/3?redis_cluster=1":                "one database only",
		"redis://a?redis_cluster=1&redis_sentinel=s": "no sentinels",
	} {
		_, err := all.Store(t.Context(), "symfony+"+dsn)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("symfony+%s: %v; want it to be ErrInvalid and to say %q", dsn, err, want)
		}
	}
}

// The store of a DSN and that of padlock's own URL share their locks.
func TestSymfonyShares(t *testing.T) {
	srv, dir := server.Redis(t, server.RedisOptions{Password: canary}), t.TempDir()
	for dsn, own := range map[string]string{
		"redis://" + canary + "@" + srv.Addr() + "/3":                           "redis://:" + canary + "@" + srv.Addr() + "/3",
		"redis://" + canary + "@" + srv.Addr() + "/4?prefix=shop:":              "redis://:" + canary + "@" + srv.Addr() + "/4?prefix=shop:",
		"flock://" + filepath.ToSlash(dir):                                      fileURL(dir) + "?world=yes",
		"redis://" + canary + "@?host%5B" + url.QueryEscape(srv.Addr()) + "%5D": "redis://:" + canary + "@" + srv.Addr(),
	} {
		ours, theirs := locker(t, own), locker(t, "symfony+"+dsn)
		lock, err := ours.Acquire(t.Context(), "name")
		if err != nil {
			t.Fatal(err)
		}
		_, err = theirs.TryAcquire(t.Context(), "name")
		if !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s beside %s: %v", strings.ReplaceAll(dsn, canary, "…"), strings.ReplaceAll(own, canary, "…"), err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}
}

// A quorum with fences=no has no fences.
func TestQuorumWithoutFences(t *testing.T) {
	for rawURL, want := range map[string]driver.Fence{
		quorumURL("all", t.TempDir(), 2) + "&fences=no":    driver.FenceNone,
		quorumURL("quorum", t.TempDir(), 3) + "&fences=no": driver.FenceNone,
		quorumURL("all", t.TempDir(), 2) + "&fences=yes":   driver.FenceDurable,
		quorumURL("all", t.TempDir(), 2):                   driver.FenceDurable,
	} {
		store, err := all.Store(t.Context(), rawURL)
		if err != nil {
			t.Fatal(err)
		}
		if got := store.Guarantees().Fence; got != want {
			t.Errorf("%s: fences are %v, want %v", rawURL, got, want)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, query := range []string{"&fences=maybe", "&fences=no&fences=yes"} {
		if _, err := all.Store(t.Context(), quorumURL("all", t.TempDir(), 2)+query); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", query, err)
		}
	}
}
