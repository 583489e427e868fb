package main

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
)

// wires are the proxies between the workers and the servers.
type wires struct {
	host      server.Host
	all       []*server.Proxy
	unproxied []string // the URLs of stores that are reached without a proxy; the URLs contain no secrets
}

// addProxies starts a proxy for the server of a store, and returns the store's URL with the address
// of the proxy. If the store is made of other stores, each of these gets its own proxy. A store
// without a server keeps its URL. A store whose server cannot have a proxy, because connections are
// encrypted or it tells other addresses, keeps its URL too, and is added to w.unproxied.
func (w *wires) addProxies(rawURL string) (string, error) {
	u, s, err := open.Parse(rawURL, schemes)
	if err != nil {
		return "", err
	}
	query := u.Query()
	if s.Composite {
		for i, member := range query["store"] {
			if query["store"][i], err = w.addProxies(member); err != nil {
				return "", err
			}
		}
		return u.Scheme + ":?" + query.Encode(), nil
	}
	if s.Servers == nil {
		return rawURL, nil
	}
	if servers, encrypted := s.Servers(u); len(servers) == 1 && !encrypted && mayMove(u) {
		var p *server.Proxy
		if err := w.host.Try(func(t testing.TB) { p = server.NewProxy(t, servers[0]) }); err != nil {
			return "", err
		}
		w.all = append(w.all, p)
		if query.Has("endpoint") {
			query.Set("endpoint", "http://"+p.Addr())
			u.RawQuery = query.Encode()
		} else {
			u.Host = p.Addr()
		}
		return u.String(), nil
	}
	if shown := open.Redacted(rawURL, schemes); !slices.Contains(w.unproxied, shown) {
		w.unproxied = append(w.unproxied, shown)
	}
	return rawURL, nil
}

// mayMove reports whether another address may stand in the URL. That is not so if the server tells
// its clients where the others are, or if a parameter names the host.
func mayMove(u *url.URL) bool {
	tells := strings.HasSuffix(u.Scheme, "+sentinel") || strings.HasSuffix(u.Scheme, "+cluster") || strings.HasPrefix(u.Scheme, "mongodb")
	return u.Host != "" && !tells && !u.Query().Has("host")
}
