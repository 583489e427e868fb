//go:build linux

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/redissession"
	"github.com/padlock-go/padlock/session/sessionstore"
	"github.com/padlock-go/padlock/session/sessiontest/load"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// A builder starts stacks that share a Redis. The stacks are stopped at the end of the test or
// benchmark t.
type builder struct {
	t      testing.TB
	redis  string
	bare   string
	wants  func(row string) bool
	stacks []*stack

	workers int // number of processes of a PHP server
}

// add adds a row, unless the user has chosen other rows. It calls the function start, which starts
// the servers for the row and returns their URLs.
func (b *builder) add(name string, m mode, start func() ([]string, error)) error {
	if !b.wants(name) {
		return nil
	}
	servers, err := start()
	b.stacks = append(b.stacks, &stack{name: name, servers: servers, bare: b.bare, modes: m})
	return err
}

func (b *builder) serve(h http.Handler) string {
	srv := httptest.NewServer(h)
	b.t.Cleanup(srv.Close)
	return srv.URL
}

// options lets each request wait for the lock for up to a minute. That is enough for a hundred
// requests that run one after the other. The option Insecure lets the cookie work over plain HTTP.
func options(l *padlock.Locker) []session.Option {
	return []session.Option{session.Locker(l), session.MaxWait(time.Minute), session.Cookie{Insecure: true}}
}

func (b *builder) manager(s sessionstore.Store, l *padlock.Locker, m session.Mode) ([]string, error) {
	sessions, err := session.New(s, options(l)...)
	if err != nil {
		return nil, err
	}
	return []string{b.serve(load.Handler(sessions, m))}, nil
}

func (b *builder) locker(s padlock.Store) *padlock.Locker {
	l := padlock.New(s)
	b.t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

func (b *builder) inMemory() error {
	return errors.Join(
		b.add("padlock Delta, memory", delta, func() ([]string, error) {
			return b.manager(sessionstore.NewMemory(), b.locker(memstore.New()), session.Delta)
		}),
		b.add("padlock Exclusive, memory", exclusive, func() ([]string, error) {
			return b.manager(sessionstore.NewMemory(), b.locker(memstore.New()), session.Exclusive)
		}))
}

func (b *builder) inRedis() error {
	r, err := b.connect()
	if err != nil {
		return err
	}
	return errors.Join(
		b.add("padlock Delta, Redis", delta, func() ([]string, error) {
			l, err := b.redisLocker(redissession.Locks())
			if err != nil {
				return nil, err
			}
			return b.manager(r.Sessions(), l, session.Delta)
		}),
		b.add("padlock Exclusive, Redis", exclusive, func() ([]string, error) {
			l, err := b.redisLocker(redissession.Locks())
			if err != nil {
				return nil, err
			}
			return b.manager(r.Sessions(), l, session.Exclusive)
		}))
}

func (b *builder) server() redisstore.Config { return redisstore.Config{Addrs: []string{b.redis}} }

func (b *builder) connect() (*redissession.Redis, error) {
	r, err := redissession.Open(context.Background(), b.server())
	if err == nil {
		b.t.Cleanup(func() { _ = r.Close() })
	}
	return r, err
}

func (b *builder) redisLocker(opts []redisstore.Option) (*padlock.Locker, error) {
	s, err := redisstore.Open(context.Background(), b.server(), opts...)
	if err != nil {
		return nil, err
	}
	b.t.Cleanup(func() { s.Close() })
	return b.locker(s), nil
}
