package etcdstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/etcdstore"
	"github.com/padlock-go/padlock/internal/server"
)

// TestLoginHangs: while a login hangs, each call ends by itself, and Close ends too. All calls
// share one login. If each call made a login of its own, the last of them would wait for all
// others.
func TestLoginHangs(t *testing.T) {
	t.Parallel()
	var logins atomic.Int32
	begun, finish := make(chan struct{}, 10), make(chan struct{})
	defer close(finish)
	hang := func(context.Context) (string, string, error) {
		logins.Add(1)
		begun <- struct{}{}
		<-finish
		return "", "", errors.New("it hung")
	}
	s, err := etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: []string{"127.0.0.1:1"}, Credentials: hang}, etcdstore.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 10)
	for i := range 5 {
		go func() {
			_, err := s.Release(context.Background(), "job", "token", 0)
			errs <- err
		}()
		if i == 0 {
			<-begun
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := s.Extend(ctx, "job", "token", 0)
		errs <- err
	}()
	cancel()
	var cancelled, silent int
	for range 6 {
		switch err := await(t, errs); {
		case errors.Is(err, context.Canceled):
			cancelled++
		case errors.Is(err, driver.ErrUnavailable):
			silent++
		default:
			t.Errorf("a call while the login hangs: %v", err)
		}
	}
	if cancelled != 1 || silent != 5 || logins.Load() != 1 {
		t.Errorf("%d calls ended with their context, %d because of the server, after %d logins; want 1, 5, 1", cancelled, silent, logins.Load())
	}
	go func() { errs <- s.Close() }()
	if err := await(t, errs); err != nil {
		t.Error(err)
	}
}

// await returns the next result of a call that must end by itself.
func await(t *testing.T, errs <-chan error) error {
	t.Helper()
	select {
	case err := <-errs:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("a call does not end")
		return nil
	}
}

// TestUnreached: if no connection can be made, the error says why.
func TestUnreached(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{TLS: server.NewTLS(t)})
	for wants, c := range map[string]etcdstore.Config{
		"connection refused": {Endpoints: []string{"127.0.0.1:1"}},
		"certificate":        {Endpoints: []string{srv.Addr()}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
	} {
		_, err := etcdstore.Open(t.Context(), c)
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), wants) || strings.ContainsAny(err.Error(), "\"\n") {
			t.Errorf("%v: want ErrUnavailable with %q, got: %v", c.Endpoints, wants, err)
		}
	}
}
