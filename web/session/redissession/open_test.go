package redissession_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/redis/rueidis"
)

const rotating = "user default on nopass ~* &* +@all\nuser app on >first-secret ~* &* +@all\n"

// rotate gives the user a new password and ends all its connections.
func rotate(t *testing.T, c rueidis.Client, password string) {
	t.Helper()
	askServer(t, c, "ACL", "SETUSER", "app", "resetpass", ">"+password)
	if n := askServer(t, c, "CLIENT", "KILL", "USER", "app"); n == "0" {
		t.Fatal("no connection was ended")
	}
}

func touch(t *testing.T, r *redissession.Redis) error {
	return r.Values().Discard(t.Context(), "k")
}

// TestOpenEndsWithItsContext: if the context of Open ends while the server does not answer, Open
// returns at once.
func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if c, err := silent.Accept(); err == nil {
			defer c.Close()
			cancel()
			<-t.Context().Done()
		}
	}()
	_, err = redissession.Open(ctx, redisstore.Config{Addrs: []string{silent.Addr().String()}})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("Open: %v", err)
	}
}

// TestCredentialsRotate changes the password while the connection is in use. The next connection
// asks for it.
func TestCredentialsRotate(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{ACL: rotating})
	raw := dial(t, clientOption(srv.Addr()))
	var password atomic.Value
	password.Store("first-secret")
	r, err := redissession.Open(t.Context(), redisstore.Config{
		Addrs: []string{srv.Addr()},
		Credentials: func(context.Context) (string, string, error) {
			if password.Load() == "" {
				return "", "", errors.New("the vault is sealed")
			}
			return "app", password.Load().(string), nil
		},
	})
	noError(t, err)
	t.Cleanup(func() { noError(t, r.Close()) })
	noError(t, touch(t, r))
	password.Store("")
	rotate(t, raw, "second-secret")
	eventually(t, "the error of Credentials", func() bool {
		_, err := r.Sessions().Load(t.Context(), "id")
		return errors.Is(err, session.ErrUnavailable) && strings.Contains(err.Error(), "the vault is sealed")
	})
	password.Store("second-secret")
	eventually(t, "a request with the new password", func() bool { return touch(t, r) == nil })
}

// TestPasswordFileRotates writes a new password into the file that the URL names.
func TestPasswordFileRotates(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{ACL: rotating})
	raw := dial(t, clientOption(srv.Addr()))
	file := filepath.Join(t.TempDir(), "password")
	noError(t, os.WriteFile(file, []byte("first-secret\n"), 0o600))
	u, err := url.Parse("redis://app@" + srv.Addr() + "?password-file=" + file)
	noError(t, err)
	r, err := redissession.FromURL(t.Context(), u)
	noError(t, err)
	t.Cleanup(func() { noError(t, r.Close()) })
	noError(t, touch(t, r))
	noError(t, os.WriteFile(file, []byte("second-secret\n"), 0o600))
	rotate(t, raw, "second-secret")
	eventually(t, "a request with the new password", func() bool { return touch(t, r) == nil })

	// The server has a new password and the file does not.
	rotate(t, raw, "third-secret")
	eventually(t, "an error about the old password", func() bool {
		err := touch(t, r)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Fatalf("a password is in the error: %v", err)
		}
		return err != nil && strings.Contains(err.Error(), "WRONGPASS")
	})
	if again, err := redissession.FromURL(t.Context(), u); !errors.Is(err, session.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("FromURL with the old password: %v", err)
		if err == nil {
			again.Close()
		}
	}
}

// TestPlaces opens a server behind a sentinel, which has a login of its own, and a Unix socket.
func TestPlaces(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{ACL: rotating, Socket: true})
	watch := server.Sentinel(t, srv)
	askServer(t, dial(t, rueidis.ClientOption{InitAddress: []string{watch.Addr()}, ForceSingleClient: true}),
		"ACL", "SETUSER", "watcher", "reset", "on", ">other-secret", "~*", "&*", "+@all")
	for _, text := range []string{
		"redis+sentinel://app:first-secret@" + watch.Addr() + "/main?sentinel-user=watcher&sentinel-password=other-secret",
		"redis+unix://app:first-secret@" + server.RedisSocket(srv),
	} {
		u, err := url.Parse(text)
		noError(t, err)
		r, err := redissession.FromURL(t.Context(), u)
		if err != nil {
			t.Errorf("%s: %v", u.Redacted(), err)
			continue
		}
		t.Cleanup(func() { noError(t, r.Close()) })
		noError(t, touch(t, r))
	}
	u, err := url.Parse("redis+sentinel://app:first-secret@" + watch.Addr() + "/main?sentinel-user=watcher&sentinel-password=wrong-secret")
	noError(t, err)
	if r, err := redissession.FromURL(t.Context(), u); !errors.Is(err, session.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong password for the sentinel: %v", err)
		if err == nil {
			r.Close()
		}
	}
}

// TestContradictions checks that settings and URLs that contradict themselves are refused before
// anything is sent.
func TestContradictions(t *testing.T) {
	t.Parallel()
	one := []string{"h.invalid:1"}
	login := redisstore.Login("", "secret")
	for says, c := range map[string]redisstore.Config{
		"set Addrs or Socket":           {},
		"neither Cluster nor Sentinel":  {Addrs: []string{"h.invalid:1", "i.invalid:1"}},
		"Sentinel: there is a login":    {Addrs: one, Sentinel: redisstore.Sentinel{Credentials: login}},
		"Cluster and Sentinel are both": {Addrs: one, Cluster: true, Sentinel: redisstore.Sentinel{MasterName: "m", Credentials: login}},
	} {
		r, err := redissession.Open(t.Context(), c)
		refused(t, r, err, says)
	}
	if r, err := redissession.Open(t.Context(), redisstore.Config{Addrs: one}, nil); true {
		refused(t, r, err, "an Option is nil")
	}
	for text, says := range map[string]string{
		"redis://:secret@h.invalid?password-file=/f":   "in the URL and in a file",
		"redis://:secret@h.invalid?prefx=a":            "prefix",
		"redis://:secret@h.invalid?layout=string":      "there is no parameter",
		"redis://:secret@h.invalid?prefix=a&prefix=b":  "more than once",
		"redis://h.invalid?sentinel-password=secret":   "no sentinels",
		"redis://:secret@h.invalid?ca=/f":              "for TLS",
		"http://:secret@h.invalid":                     "begins with redis:",
		"redis://:secret@h.invalid,i.invalid":          "names one host",
		"redis+cluster://:secret@h.invalid?db=1":       "in a cluster only 0",
		"redis+sentinel://:secret@h.invalid?db=secret": "what Sentinel calls the primary",
	} {
		u, err := url.Parse(text)
		noError(t, err)
		r, err := redissession.FromURL(t.Context(), u)
		refused(t, r, err, says)
	}
}

// refused expects an error that is ErrInvalid, contains wantText, and contains no secret.
func refused(t *testing.T, r *redissession.Redis, err error, wantText string) {
	t.Helper()
	if err == nil {
		r.Close()
	}
	if !errors.Is(err, padlock.ErrInvalid) || !strings.Contains(err.Error(), wantText) || strings.Contains(err.Error(), "secret") {
		t.Errorf("want %q, got: %v", wantText, err)
	}
}
