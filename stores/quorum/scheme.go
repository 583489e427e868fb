package quorum

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// MajorityScheme describes the URL quorum:?store=URL&store=URL&store=URL for package open. A
// majority of the stores must grant a lock. A member may be down when the store is opened.
func MajorityScheme() storeurl.Scheme {
	return scheme("quorum", Majority, "a majority of several stores",
		"quorum:?store=redis%3A//a&store=redis%3A//b&store=redis%3A//c")
}

// AllScheme describes the URL all:?store=URL&store=URL for package open. Every one of the stores
// must grant a lock.
func AllScheme() storeurl.Scheme {
	return scheme("all", All, "all of several stores, for a move from one to another",
		"all:?store=redis%3A//old&store=redis%3A//new")
}

func scheme(name string, rule Rule, help, example string) storeurl.Scheme {
	return storeurl.Scheme{
		Names: []string{name}, Help: help, Example: example, Composite: true,
		Open: func(ctx context.Context, u *url.URL, o storeurl.Opening) (driver.Store, error) {
			return openMembers(ctx, rule, u, o)
		},
	}
}

// openMembers opens the members that u names and makes one store of them.
func openMembers(ctx context.Context, rule Rule, u *url.URL, o storeurl.Opening) (driver.Store, error) {
	query, err := parameters(u)
	if err != nil {
		return nil, err
	}
	var stores []driver.Store
	for i, member := range query["store"] {
		s, err := o.Member(ctx, member, o.Lazy || rule == Majority)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("store %d: %w", i+1, err), closeAll(stores))
		}
		stores = append(stores, s)
	}
	var opts []Option
	if query.Get("fences") == "no" {
		opts = append(opts, NoFences())
	}
	q, err := New(rule, stores, opts...)
	if err != nil {
		return nil, errors.Join(err, closeAll(stores))
	}
	return q, nil
}

// parameters reads ?store=URL&store=URL…, and perhaps &fences=no.
func parameters(u *url.URL) (url.Values, error) {
	form := u.Scheme + ":?store=URL&store=URL…"
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Host != "" || u.Path != "" || u.Opaque != "" || u.User != nil:
		return nil, storekit.Invalidf("write %s", form)
	case err != nil || u.Fragment != "":
		return nil, storekit.Invalidf("write %s, and percent-encode each URL in it", form)
	case len(query["store"]) == 0:
		return nil, storekit.Invalidf("no store is named; write %s", form)
	}
	for name := range query {
		if name != "store" && name != "fences" {
			return nil, storekit.Invalidf("the only parameters are store and fences; if another one belongs to one of the stores, percent-encode that store's URL (? & = # as %%3F %%26 %%3D %%23)")
		}
	}
	if f := query["fences"]; len(f) > 1 || len(f) == 1 && f[0] != "yes" && f[0] != "no" {
		return nil, storekit.Invalidf("write fences once, as fences=yes or fences=no")
	}
	return query, nil
}

func closeAll(stores []driver.Store) error {
	var err error
	for _, s := range stores {
		err = errors.Join(err, s.Close())
	}
	return err
}
