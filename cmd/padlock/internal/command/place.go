package command

import (
	"github.com/padlock-go/padlock/open"
)

// environment is what open.EnvURL has returned. It is called once, since PADLOCK_STORE_FILE may
// name a pipe.
type environment struct {
	url, variable string
	err           error
}

func (a *app) environment() *environment {
	if a.fromEnv == nil {
		a.fromEnv = new(environment)
		a.fromEnv.url, a.fromEnv.variable, a.fromEnv.err = open.EnvURL()
	}
	return a.fromEnv
}

// url returns the URL of the store: from --store, from the environment, or the default.
func (a *app) url() (string, error) {
	if a.storeURL != "" {
		return a.storeURL, nil
	}
	from := a.environment()
	return from.url, from.err
}

// storeName returns the URL of the store without secrets.
func (a *app) storeName() string {
	url, err := a.url()
	if err != nil {
		return "the default store"
	}
	return open.Redacted(url, a.schemes)
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
	if usual, err := open.DefaultURL(); err == nil && place == open.Redacted(usual, a.schemes) {
		return ""
	}
	return place
}

// urlSource returns the source of the store's URL as a text, or "" for the default.
func (a *app) urlSource() string {
	if a.storeURL != "" {
		return "--store"
	}
	return a.environment().variable
}
