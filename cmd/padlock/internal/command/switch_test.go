package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// names returns what URLs and DSNs of the schemes begin with.
func namesOf(schemes []storeurl.Scheme) (names []string) {
	for _, s := range schemes {
		names = append(append(names, s.Names...), s.Symfony...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// padlock knows by name each store that only padlock-all has, without linking it.
func TestOnlyInAll(t *testing.T) {
	small := namesOf(open.Known(open.Schemes(smallSchemes()...)))
	want := namesOf(all.Schemes())
	want = slices.DeleteFunc(want, func(name string) bool { return slices.Contains(small, name) })
	if !slices.Equal(onlyInAll, want) {
		t.Errorf("onlyInAll is\n%q, but only padlock-all has\n%q", onlyInAll, want)
	}
	for _, s := range smallSchemes() {
		if !slices.ContainsFunc(all.Schemes(), func(a storeurl.Scheme) bool { return slices.Equal(a.Names, s.Names) }) {
			t.Errorf("padlock-all lacks %s:", s.Names[0])
		}
	}
}

func TestForeignScheme(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]string{
		"file:///tmp/locks": "", "redis://127.0.0.1": "", "symfony+redis://127.0.0.1": "", "memory:": "",
		"postgres://db7/shop": "", "postgres+advisory://db7/shop?sslmode=require": "", "mysql+advisory://db7/shop": "",
		"sqlite:///tmp/x": "sqlite", "symfony+sqlite3:/tmp/x": "sqlite3", "etcds://db7": "etcds",
		"quorum:?store=redis://a&store=redis://b&store=redis://c":                             "",
		"quorum:?store=redis://a&store=etcd://b&store=redis://c":                              "etcd",
		"all:?store=file:///tmp/locks&store=quorum%3A%3Fstore%3Dredis%3A//a%26store%3Ds3://b": "s3",
		"quorum:?store=:&store=zookeeper://b":                                                 "zookeeper",
		"ftp://x":                                                                             "error", "": "error", "postgres": "error", "quorum:?store=ftp://x": "error",
		"quorum:?store=" + strings.Repeat("quorum%3A?store=", 20): "",
	} {
		got, err := small("").foreignScheme(rawURL, 0)
		if err != nil {
			got += "error"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", rawURL, got, want)
		}
	}
}

func TestInstallLine(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v1.2.0": "@v1.2.0", "v1.2.0-3-gabc": "", "": "", "unknown": ""} {
		line := small(version).installLine()
		if !strings.HasSuffix(line, "/cmd/padlock/padlock-all"+want) || strings.HasPrefix(line, "git clone ") != (want == "") {
			t.Errorf("%s: %s", version, line)
		}
	}
}
