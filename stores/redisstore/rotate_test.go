package redisstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

const rotating = "user default on nopass ~* &* +@all\nuser padlock on >first ~* &* +@all\n"

// rotate gives the user a new password and ends all its connections.
func rotate(t *testing.T, srv *server.Server, password string) {
	t.Helper()
	ask(t, srv, "ACL", "SETUSER", "padlock", "resetpass", ">"+password)
	if n := ask(t, srv, "CLIENT", "KILL", "USER", "padlock"); n == "0" {
		t.Fatal("no connection was ended")
	}
}

// TestPasswordFileRotates changes the password of the user and ends its
// connections while a lock is held and another caller waits for it.
func TestPasswordFileRotates(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{ACL: rotating})
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	s, err := redisstore.FromURL(t.Context(), mustParse(t, "redis://padlock@"+srv.Addr()+"?password-file="+file))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := request("job")
	take(t, s, r)
	w := waits(t, s, "job")
	write("second\r\n")
	rotate(t, srv, "second")
	eventually(t, "renewal with the new password", func() bool {
		_, err := s.Extend(t.Context(), "job", r.Token.Text(), r.TTL)
		return err == nil
	})
	free(t, s, r)
	w.got()

	// The server has a new password, but the file still has the old one.
	rotate(t, srv, "third")
	eventually(t, "an error about the old password", func() bool {
		_, err = s.Extend(t.Context(), "other", r.Token.Text(), r.TTL)
		return errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "does not accept the user or the password")
	})
	write("")
	eventually(t, "an error about an empty file", func() bool {
		_, err = s.Extend(t.Context(), "other", r.Token.Text(), r.TTL)
		return errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "password-file: there is no password in "+file)
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an error about a missing file", func() bool {
		_, err = s.Extend(t.Context(), "other", r.Token.Text(), r.TTL)
		return errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "password-file: open "+file)
	})
	write("third")
	eventually(t, "work with the third password", func() bool {
		_, err := s.Acquire(t.Context(), request("last job"))
		return err == nil
	})
}

// TestCredentialsAreAskedForEachConnection counts the calls that ask for credentials, and makes one
// of them fail.
func TestCredentialsAreAskedForEachConnection(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{ACL: rotating})
	var calls, fail atomic.Int64
	var password atomic.Value
	password.Store("first")
	c := at(srv.Addr())
	c.Credentials = func(ctx context.Context) (string, string, error) {
		calls.Add(1)
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the context of Credentials has no deadline")
		}
		if fail.Load() == 1 {
			return "", "", errors.New("the vault is sealed")
		}
		return "padlock", password.Load().(string), nil
	}
	s, err := redisstore.Open(t.Context(), c, fresh(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := request("job")
	take(t, s, r)
	before := calls.Load()
	for range 10 {
		if _, err := s.Extend(t.Context(), "job", r.Token.Text(), r.TTL); err != nil {
			t.Fatal(err)
		}
	}
	if n := calls.Load(); n != before {
		t.Errorf("Credentials was called %d times for 10 renewals on one connection", n-before)
	}
	fail.Store(1)
	password.Store("second")
	rotate(t, srv, "second")
	eventually(t, "the error of Credentials", func() bool {
		_, err := s.Extend(t.Context(), "job", r.Token.Text(), r.TTL)
		return errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) && strings.Contains(err.Error(), "the vault is sealed")
	})
	fail.Store(0)
	eventually(t, "renewal with the new password", func() bool {
		_, err := s.Extend(t.Context(), "job", r.Token.Text(), r.TTL)
		return err == nil
	})
}

// sentinelRights are the rights that docs/stores/redis.md lists for the user at the sentinels.
const sentinelRights = "resetchannels &+* &-* -@all +sentinel|sentinels +sentinel|get-master-addr-by-name +subscribe +unsubscribe +ping"

// TestSentinelHasItsOwnLogin has different users and passwords at the sentinel and
// at the server, and rotates both.
func TestSentinelHasItsOwnLogin(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{ACL: rotating})
	watch := server.Sentinel(t, srv)
	atSentinel := rawClient(t, rueidis.ClientOption{InitAddress: []string{watch.Addr()}, ForceSingleClient: true, ClientSetInfo: rueidis.DisableClientSetInfo})
	login := func(password string) {
		askBy(t, atSentinel, strings.Fields("ACL SETUSER watcher reset on >"+password+" "+sentinelRights)...)
	}
	login("eyes")
	dir := t.TempDir()
	for name, text := range map[string]string{"server": "first\n", "sentinel": "eyes\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u := "redis+sentinel://padlock@" + watch.Addr() + "/main?sentinel-user=watcher&password-file=" + filepath.Join(dir, "server") +
		"&sentinel-password-file=" + filepath.Join(dir, "sentinel")
	open := func() error {
		s, err := redisstore.FromURL(t.Context(), mustParse(t, u), fresh(nil)...)
		if err != nil {
			return err
		}
		take(t, s, request("job"+newToken()))
		return s.Close()
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	login("ears")
	if err := open(); err == nil || !strings.Contains(err.Error(), "does not accept the user or the password") {
		t.Errorf("with the old password of the sentinel: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sentinel"), []byte("ears"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Errorf("with the new password of the sentinel: %v", err)
	}
	denied, err := atSentinel.Do(t.Context(), atSentinel.B().Arbitrary("ACL", "LOG").Build()).ToArray()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range denied {
		entry, err := m.AsMap()
		if err != nil {
			t.Fatal(err)
		}
		reason, object := entry["reason"], entry["object"]
		if why, err := reason.ToString(); err != nil || why != "auth" {
			what, _ := object.ToString()
			t.Errorf("a right is missing: %s %s", why, what)
		}
	}
}
