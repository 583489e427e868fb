//go:build linux

// Command overhttp measures what a pair over HTTP costs beyond the requests and the store. It starts
// the servers itself. Package bench describes the method; `make bench-http` runs the command.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/open/all"
)

// plan says how much is measured.
type plan struct {
	trial time.Duration // how long a trial of pairs takes
}

var bench = measure.Bench[plan]{
	Name: "overhttp", Rounds: 7, Start: start,
	Plan: plan{time.Second},
}

func main() { bench.Main() }

// The rows of the pairs: an acquire and a release by HTTP, and what they are made of. Both send two
// requests on one connection and need the store once for each.
const (
	parts = "two bare requests, and the store's pair"
	ours  = "a pair by HTTP"
)

// start starts Redis and PostgreSQL. Their data are in memory.
func start(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
	var redis, postgres string
	dir, err := os.MkdirTemp("/dev/shm", "padlock-bench-http-")
	if err != nil {
		return nil, err
	}
	r.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Setenv("TMPDIR", dir), os.Chmod(dir, 0o755)); err != nil { // PostgreSQL runs as another user
		return nil, err
	}
	if err := r.Try(func(t testing.TB) {
		redis = server.Redis(t, server.RedisOptions{Args: []string{"--appendonly", "no"}}).URL()
		postgres = server.Postgres(t, server.PostgresOptions{}).URL()
	}); err != nil {
		return nil, err
	}
	var experiments []*measure.Experiment
	for _, s := range []struct{ name, url string }{{"memory", "memory:"}, {"Redis", redis}, {"PostgreSQL", postgres}} {
		experiments = append(experiments, &measure.Experiment{
			Name: "pair by HTTP, " + s.name, Columns: trial.PairColumns, Base: parts, Ratio: "p50 us",
			Rows: []measure.Row{
				{Name: parts, Run: func() (measure.Figures, error) { return pairs(s.url, p.trial, (*site).parts) }},
				{Name: ours, Run: func() (measure.Figures, error) { return pairs(s.url, p.trial, (*site).pair) }},
			},
			Targets: []measure.Target{{Row: ours, Column: "p50 us", Base: parts, AtMost: 1.3}},
		})
	}
	return experiments, nil
}

// A site is a Handler on a store, served on a connection of its own, and a client.
type site struct {
	store  driver.Store
	url    string
	client *http.Client
	n      int
}

// pairs measures one of the methods of a site.
func pairs(storeURL string, d time.Duration, once func(*site) error) (f measure.Figures, err error) {
	store, err := all.Store(context.Background(), storeURL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	api := padlockapi.Handler(store, padlockapi.WithoutToken())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: api}
	served := make(chan struct{})
	go func() { srv.Serve(l); close(served) }()
	s := &site{store: store, url: "http://" + l.Addr().String(), client: &http.Client{Transport: &http.Transport{}}}
	defer func() {
		s.client.CloseIdleConnections()
		err = errors.Join(err, srv.Close(), api.Close())
		<-served
	}()
	return trial.Repeat(d, nil, func() error { return once(s) })
}

// parts sends two requests that the Handler refuses after it has read their bodies, and takes and
// releases a lock in the store itself.
func (s *site) parts() error {
	ctx := context.Background()
	token := s.token()
	if err := s.ask(http.StatusBadRequest, "acquire", `{}`); err != nil {
		return err
	}
	if _, err := s.store.Acquire(ctx, driver.Request{Name: "bench", Token: token, TTL: trial.TTL}); err != nil {
		return err
	}
	if err := s.ask(http.StatusBadRequest, "release", `{}`); err != nil {
		return err
	}
	_, err := s.store.Release(ctx, "bench", token, 0)
	return err
}

// pair takes and releases a lock by HTTP.
func (s *site) pair() error {
	lock := fmt.Sprintf(`"name":"bench","token":%q`, s.token())
	if err := s.ask(http.StatusOK, "acquire", fmt.Sprintf(`{%s,"ttl_ms":%d}`, lock, trial.TTL.Milliseconds())); err != nil {
		return err
	}
	return s.ask(http.StatusOK, "release", "{"+lock+"}")
}

func (s *site) token() string {
	s.n++
	return fmt.Sprintf("bench-%026d", s.n)
}

func (s *site) ask(want int, path, body string) error {
	reply, err := s.client.Post(s.url+"/v1/"+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if _, err = io.Copy(io.Discard, reply.Body); err == nil && reply.StatusCode != want {
		err = fmt.Errorf("%s: the status is %d, want %d", path, reply.StatusCode, want)
	}
	return err
}
