package natsstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/natsstore"
)

func parse(t testing.TB, rawURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// open opens a store by its URL.
func open(t testing.TB, rawURL string) driver.Store {
	t.Helper()
	var s driver.Store
	if err := answered(t, func() (err error) { s, err = openURL(t.Context(), t, rawURL); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// answered repeats a call until the servers answer in time, and returns the error of that call. A
// server on a busy machine may be silent for longer than the store waits.
func answered(t testing.TB, call func() error) (err error) {
	t.Helper()
	server.Eventually(t, func() error {
		if err = call(); errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
			return err
		}
		return nil
	})
	return err
}

// refuses repeats a call, which must not succeed, until it is unavailable for the given reason.
// While the server is silent, the store gives another reason.
func refuses(t testing.TB, why string, call func() error) {
	t.Helper()
	server.Eventually(t, func() error {
		err := call()
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("want ErrUnavailable with %q: %v", why, err)
		}
		if !strings.Contains(err.Error(), why) {
			return fmt.Errorf("want %q: %w", why, err)
		}
		return nil
	})
}

// refusesToOpen is like refuses, for the URL of a store.
func refusesToOpen(t testing.TB, why, rawURL string) {
	t.Helper()
	refuses(t, why, func() error {
		s, err := openURL(t.Context(), t, rawURL)
		if err == nil {
			s.Close()
		}
		return err
	})
}

func openURL(ctx context.Context, t testing.TB, rawURL string) (driver.Store, error) {
	return natsstore.Scheme().Open(ctx, parse(t, rawURL), driver.Opening{})
}

// makeBucket makes the bucket of a URL as padlock schema --upgrade does.
func makeBucket(t testing.TB, rawURL string) {
	t.Helper()
	var from, to int
	tries := 0 // an earlier one may have made the bucket
	err := answered(t, func() (err error) {
		tries++
		from, to, err = natsstore.Scheme().Upgrade(t.Context(), parse(t, rawURL))
		return err
	})
	if err != nil || from != 0 && tries == 1 || to != 1 {
		t.Fatalf("Upgrade: from %d to %d, %v", from, to, err)
	}
}

// start starts a server with a bucket, and returns the URL of a store in it.
func start(t testing.TB, o server.NATSOptions) (*server.Server, string) {
	t.Helper()
	srv := server.NATS(t, o)
	rawURL := srv.URL() + "/locks/shop"
	makeBucket(t, rawURL)
	return srv, rawURL
}

// startCluster starts three servers with a bucket that all of them keep, and returns the URL of a
// store in it.
func startCluster(t testing.TB) (members []*server.Server, rawURL string) {
	t.Helper()
	members = server.NATSCluster(t, 3)
	var hosts []string
	for _, m := range members {
		hosts = append(hosts, m.Addr())
	}
	rawURL = "nats://" + strings.Join(hosts, ",") + "/locks?replicas=3"
	server.Eventually(t, func() error { // they elect a leader first
		_, _, err := natsstore.Scheme().Upgrade(t.Context(), parse(t, rawURL))
		return err
	})
	return members, rawURL
}

// connect connects with NATS's own client.
func connect(t testing.TB, rawURL string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(rawURL, nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: rand.Text(), TTL: 30 * time.Second, Holder: driver.Holder{Host: "web-7", Label: "nightly"}}
}

func take(t testing.TB, s driver.Store, r driver.Request) driver.Grant {
	t.Helper()
	var g driver.Grant
	if err := answered(t, func() (err error) { g, err = s.Acquire(t.Context(), r); return err }); err != nil {
		t.Fatal(err)
	}
	return g
}

// wait waits for a name in the background.
func wait(t testing.TB, s driver.Store, name string) (woken chan error) {
	woken = make(chan error, 1)
	go func() {
		_, err := s.(driver.Waiter).Wait(t.Context(), request(name), true)
		woken <- err
	}()
	return woken
}
