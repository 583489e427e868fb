package main

import (
	"slices"
	"strings"
	"testing"
)

// Every server with one address and no TLS gets a proxy, and the rest of the URL stays as it is.
func TestThroughProxies(t *testing.T) {
	t.Parallel()
	for from, want := range map[string][]string{
		"file:///var/lib/locks":                                {"file:///var/lib/locks"},
		"redis://u:p%2F@db1/3?layout=string":                   {"redis://u:p%2F@", "/3?layout=string"},
		"rediss://db1:7000?ca=x":                               {"rediss://db1:7000?ca=x"},
		"quorum:?store=redis%3A%2F%2Fa&store=redis%3A%2F%2Fb":  {"quorum:?store=redis%3A%2F%2F127.0.0.1%3A", "&store=redis%3A%2F%2F127.0.0.1%3A"},
		"redis+sentinel://a,b/main":                            {"redis+sentinel://a,b/main"},
		"redis+unix:///run/redis.sock":                         {"redis+unix:///run/redis.sock"},
		"all:?store=file%3A%2F%2F%2Fa&store=file%3A%2F%2F%2Fb": {"all:?store=file%3A%2F%2F%2Fa&store=file%3A%2F%2F%2Fb"},
	} {
		var w wires
		defer w.host.End()
		got, err := w.addProxies(from)
		if err != nil {
			t.Fatal(err)
		}
		rest := got
		for _, part := range want {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s becomes %s, which has not %q in its place", from, got, part)
			}
			rest = after
		}
		if proxied := got != from; proxied != (len(w.all) > 0) {
			t.Errorf("%s: %d proxies", from, len(w.all))
		}
		if told := slices.ContainsFunc(w.unproxied, func(s string) bool { return strings.HasPrefix(from, s) }); told != (strings.HasPrefix(from, "redis+") || strings.HasPrefix(from, "rediss:")) {
			t.Errorf("%s: said to be without proxy: %v", from, w.unproxied)
		}
	}
}
