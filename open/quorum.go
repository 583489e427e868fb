package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/quorum"
)

// maxDepth bounds quorums in quorums. Two levels make sense (machines within
// data centres); more is a URL gone wrong.
const maxDepth = 4

// rules are the schemes of stores made of stores.
func rules() map[string]*quorum.Rule {
	majority, all := quorum.Majority, quorum.All
	return map[string]*quorum.Rule{"quorum": &majority, "all": &all}
}

// members makes the constructor of a store made of stores.
func members(rule quorum.Rule) constructor {
	return func(ctx context.Context, o *opener, u *url.URL) (driver.Store, error) {
		urls, err := memberURLs(u)
		if err != nil {
			return nil, err
		}
		if err := distinct(urls); err != nil {
			return nil, err
		}
		var opts []quorum.Option
		if u.Query().Get("fences") == "no" {
			opts = append(opts, quorum.NoFences())
		}
		if o.depth >= maxDepth {
			return nil, invalid("stores are nested more than %d deep", maxDepth)
		}
		inner := *o
		inner.depth++
		inner.mayBeDown = o.mayBeDown || rule == quorum.Majority
		var stores []driver.Store
		for i, member := range urls {
			s, err := inner.open(ctx, member)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("store %d: %w", i+1, err), closeAll(stores))
			}
			stores = append(stores, s)
		}
		q, err := quorum.New(rule, stores, opts...)
		if err != nil {
			return nil, errors.Join(err, closeAll(stores))
		}
		return q, nil
	}
}

// memberURLs reads ?store=URL&store=URL…, and perhaps &fences=no.
func memberURLs(u *url.URL) ([]string, error) {
	form := u.Scheme + ":?store=URL&store=URL…"
	if u.Host != "" || u.Path != "" || u.Opaque != "" || u.User != nil {
		return nil, invalid("the URL has the form %s", form)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return nil, invalid("the URL has the form %s, each URL in it percent-encoded", form)
	}
	for name := range query {
		if name != "store" && name != "fences" {
			return nil, invalid("there is a parameter other than store and fences; if it belongs to one of the stores, percent-encode that store's URL (? & = # as %%3F %%26 %%3D %%23)")
		}
	}
	if f := query["fences"]; len(f) > 1 || len(f) == 1 && f[0] != "yes" && f[0] != "no" {
		return nil, invalid("fences: it is yes or no")
	}
	if len(query["store"]) == 0 {
		return nil, invalid("no store is named; the URL has the form %s", form)
	}
	return query["store"], nil
}

// distinct refuses a store that is named twice, which would have two votes.
func distinct(urls []string) error {
	seen := map[string]int{}
	for i, member := range urls {
		u, err := parse(member)
		if err != nil || u.Scheme == "memory" { // each memory: is a store of its own
			continue
		}
		query := u.Query()
		place := u.Scheme + "//" + strings.ToLower(u.Host) + u.Path + u.Opaque + "?" + query.Get("prefix") + query.Get("db")
		if rules()[u.Scheme] != nil {
			place = member
		}
		if first, ok := seen[place]; ok {
			return invalid("stores %d and %d are the same: each store of a quorum has one vote", first+1, i+1)
		}
		seen[place] = i
	}
	return nil
}

func closeAll(stores []driver.Store) error {
	var err error
	for _, s := range stores {
		err = errors.Join(err, s.Close())
	}
	return err
}
