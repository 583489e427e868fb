package main

import (
	"context"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// schemes are the kinds of stores that the command supports.
var schemes = open.Schemes(all.Schemes()...)

// openStore opens a store; tests replace it.
var openStore = func(ctx context.Context, url string, opts ...open.Option) (padlock.Store, error) {
	if dir, err := open.DefaultDir(); err == nil { // otherwise the store remembers nothing
		opts = append(opts, open.StateDir(dir))
	}
	return open.Store(ctx, url, append(opts, schemes, open.BetweenProcesses())...)
}

// url returns the URL of the store: from --store, from the environment, or the default.
func (a *app) url() (string, error) {
	if a.storeURL != "" {
		return a.storeURL, nil
	}
	url, _, err := open.EnvURL()
	return url, err
}

// storeName returns the URL of the store without secrets.
func (a *app) storeName() string {
	url, err := a.url()
	if err != nil {
		return "the default store"
	}
	return open.Redacted(url, schemes)
}

// place returns the name of the store for a sentence, without secrets.
func (a *app) place() string {
	if _, err := a.url(); err != nil {
		return a.storeName()
	}
	return "the store " + a.storeName()
}

// placeLabel returns the name of the store for figures and for the history, or "" for the built-in
// store of this user.
func (a *app) placeLabel() string {
	place := a.storeName()
	if usual, err := open.DefaultURL(); err == nil && place == open.Redacted(usual, schemes) {
		return ""
	}
	return place
}

// urlSource returns the source of the store's URL as a text, or "" for the default.
func (a *app) urlSource() string {
	if a.storeURL != "" {
		return "--store"
	}
	_, variable, _ := open.EnvURL()
	return variable
}
