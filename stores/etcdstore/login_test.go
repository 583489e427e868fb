package etcdstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// TestLoginHangs: while a login hangs, each call ends by itself, and Close ends too. All calls
// share one login. If each call made a login of its own, the last of them would wait for all
// others.
func TestLoginHangs(t *testing.T) {
	server.Thorough(t)
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

// enableLogins makes the users root and app of a server, with the rights that the page of the store
// lists for app.
func enableLogins(t *testing.T, srv *server.Server, password string) {
	t.Helper()
	c, ctx := newClient(t, srv.Addr()), t.Context()
	_, err1 := c.RoleAdd(ctx, "padlock")
	_, err2 := c.RoleGrantPermission(ctx, "padlock", "padlock/", "padlock0", clientv3.PermissionType(clientv3.PermReadWrite))
	_, err3 := c.UserAdd(ctx, "app", password)
	_, err4 := c.UserGrantRole(ctx, "app", "padlock")
	_, err5 := c.UserAdd(ctx, "root", "root")
	_, err6 := c.UserGrantRole(ctx, "root", "root")
	_, err7 := c.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
}

// rootClient returns a client of the user root, after enableLogins.
func rootClient(t *testing.T, srv *server.Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{srv.Addr()}, Username: "root", Password: "root", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestPasswordChange: after a change of the password, the store asks for the new one. A hold and a
// waiter outlive the change, and also a restart after which the server does not know the logins.
func TestPasswordChange(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	enableLogins(t, srv, "old")
	ctx := t.Context()
	var password atomic.Value
	password.Store("old")
	c := etcdstore.Config{Endpoints: []string{srv.Addr()}, Credentials: func(context.Context) (string, string, error) {
		return "app", password.Load().(string), nil
	}}
	holder := openWith(t, c)
	waiter := openWith(t, c)
	lister := openWith(t, c) // it only lists, which must notice the change, too
	r := request("job", "one")
	r.TTL = 5 * time.Minute
	take(t, holder, r)
	waited := make(chan error, 1)
	go func() { waited <- waitPatiently(ctx, waiter, request("job", "waiter")) }()
	inQueue(t, waiter, "job", 1)
	root := rootClient(t, srv)
	password.Store("new")
	if _, err := root.UserChangePassword(ctx, "app", "new"); err != nil {
		t.Fatal(err)
	}
	stays := func() error {
		_, err := holder.Extend(ctx, "job", "one", 5*time.Minute)
		if err != nil && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) {
			t.Fatal(err)
		}
		return err
	}
	server.Eventually(t, stays)
	srv.Kill()
	srv.Restart(true)
	server.Eventually(t, stays)
	server.Eventually(t, func() error { _, err := lister.List(ctx, ""); return err })
	if o, err := holder.Release(ctx, "job", "one", 0); err != nil || o != driver.OutcomeReleased {
		t.Errorf("Release: %v, %v", o, err)
	}
	if err := await(t, waited); err != nil {
		t.Errorf("the waiter gets %v", err)
	}
}

// TestLoginEnds: the server forgets the logins of a user, as it does when a login's token has not
// been used for five minutes. Here it does so because the user gets a password, the same one as
// before. A server of version 3.4 checks the old token even in the request for a new one.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{"3.4": true, "current": false} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			srv := server.Etcd(t, server.EtcdOptions{Old: old})
			enableLogins(t, srv, "pw")
			c := etcdstore.Config{Endpoints: []string{srv.Addr()}, Credentials: etcdstore.Login("app", "pw")}
			holder, waiter, idle := openWith(t, c), openWith(t, c), openWith(t, c)
			r := request("job", "one")
			r.TTL = 5 * time.Minute
			take(t, holder, r)
			waited := make(chan error, 1)
			go func() { waited <- waitPatiently(t.Context(), waiter, request("job", "waiter")) }()
			inQueue(t, waiter, "job", 1)
			root := rootClient(t, srv)
			if _, err := root.UserChangePassword(t.Context(), "app", "pw"); err != nil {
				t.Fatal(err)
			}
			if _, err := holder.Extend(t.Context(), "job", "one", r.TTL); err != nil {
				t.Errorf("Extend: %v", err)
			}
			if _, err := idle.List(t.Context(), ""); err != nil {
				t.Errorf("List: %v", err)
			}
			if o, err := holder.Release(t.Context(), "job", "one", 0); err != nil || o != driver.OutcomeReleased {
				t.Errorf("Release: %v, %v", o, err)
			}
			if err := await(t, waited); err != nil {
				t.Errorf("the waiter gets %v", err)
			}
		})
	}
}

// waitPatiently waits for a name as package padlock does: it waits again if the server is out of
// reach for long, or if its place in the queue is gone.
func waitPatiently(ctx context.Context, s *etcdstore.Store, r driver.Request) error {
	for {
		g, err := s.Wait(ctx, r, true)
		if err == nil && g.TTL > 0 || err != nil && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) {
			return err
		}
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
		server.Eventually(t, func() error { // a server may be too slow for a handshake
			_, err := etcdstore.Open(t.Context(), c)
			if !errors.Is(err, driver.ErrUnavailable) || strings.ContainsAny(err.Error(), "\"\n") {
				t.Fatalf("%v: want ErrUnavailable, got: %v", c.Endpoints, err)
			}
			if !strings.Contains(err.Error(), wants) {
				return fmt.Errorf("%v: want %q, got: %w", c.Endpoints, wants, err)
			}
			return nil
		})
	}
}
