//go:build linux

package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/phpsession"
	"github.com/padlock-go/padlock/session/redissession"
	"github.com/padlock-go/padlock/session/sessiontest/load"
)

//go:embed testdata/app.php
var app []byte

// phpLocks are settings of phpredis for locking.
var phpLocks = map[string]string{
	"off":     "redis.session.locking_enabled = 0\n",
	"default": "redis.session.locking_enabled = 1\n",
	"patient": "redis.session.locking_enabled = 1\nredis.session.lock_retries = -1\nredis.session.lock_wait_time = 2000\nredis.session.lock_expire = 60\n",
}

func (b *builder) php() {
	for _, locks := range []string{"off", "default", "patient"} {
		b.add("phpredis, locks "+locks, peer, func() ([]string, error) { return []string{b.startPHP(phpLocks[locks])}, nil })
	}
	for _, locks := range []string{"off", "default"} { // with these settings, PHP loses its own writes or those of the Go server
		b.add("padlock Delta and PHP, locks "+locks, peer, func() ([]string, error) { return b.besidePHP(session.Delta, locks) })
	}
	b.add("padlock Delta and PHP, locks patient", withPHP, func() ([]string, error) { return b.besidePHP(session.Delta, "patient") })
	b.add("padlock Exclusive and PHP, locks patient", withPHP, func() ([]string, error) { return b.besidePHP(session.Exclusive, "patient") })
}

// besidePHP starts a Go server and a PHP server for the same sessions. It returns both addresses,
// to which requests go in turn.
func (b *builder) besidePHP(m session.Mode, locks string) ([]string, error) {
	r, err := b.connect()
	if err != nil {
		return nil, err
	}
	l, err := b.redisLocker(redissession.PHPLocks())
	if err != nil {
		return nil, err
	}
	sessions, err := phpsession.New(r.Blobs(), l, phpsession.Config{}, options(l)...)
	if err != nil {
		return nil, err
	}
	return []string{b.serve(load.Handler(sessions, m)), b.startPHP(phpLocks[locks])}, nil
}

// startPHP serves app.php with PHP's built-in web server and returns its address.
func (b *builder) startPHP(locks string) string {
	b.t.Helper()
	ini := fmt.Sprintf("session.save_handler = redis\nsession.save_path = \"tcp://%s\"\nsession.use_strict_mode = 1\n%s", b.redis, locks)
	return server.Start(b.t, server.Spec{
		Name: "php", Package: "php-cli and php-redis", Binary: []string{"php"}, Env: []string{fmt.Sprint("PHP_CLI_SERVER_WORKERS=", b.workers)},
		Args: func(p server.Place) []string {
			return []string{"-c", p.Path("php.ini"), "-S", p.Addr(), p.Path("app.php")}
		},
		Prepare: func(_ context.Context, p server.Place) error {
			if err := p.Write("php.ini", []byte(ini)); err != nil {
				return err
			}
			return p.Write("app.php", app)
		},
		Ready: func(ctx context.Context, p server.Place) error { return ready(ctx, "http://"+p.Addr()+"/ready") },
		URL:   func(p server.Place) string { return "http://" + p.Addr() },
	}).URL()
}

func ready(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %d", res.StatusCode)
	}
	return nil
}
