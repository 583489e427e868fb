package redissession_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
	"github.com/padlock-go/padlock/web/stampede"
)

// sessionRights is the user that docs/stores/redissession.md shows.
const sessionRights = "user sessions on >PASSWORD resetkeys ~app:* resetchannels -@all +ping +eval +evalsha +get +getrange +set " +
	"+del +unlink +exists +time +pttl +pexpire +persist +hget +hgetall +hmget +hset +hdel +hexists +hincrby"

// TestRights keeps sessions and values as the user that the page shows, and checks that each of its
// rights is needed.
func TestRights(t *testing.T) {
	srv := server.Redis(t, server.RedisOptions{ACL: sessionRights + "\nuser default on nopass ~* &* +@all\n"})
	r, err := redissession.Open(t.Context(), redisstore.Config{Addrs: []string{srv.Addr()}, Credentials: redisstore.Login("sessions", "PASSWORD")},
		redissession.Prefix("app:"))
	noError(t, err)
	t.Cleanup(func() { noError(t, r.Close()) })
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			sessiontest.Run(t, sessiontest.Harness{Open: func() (sessionstore.Store, error) { return open(r), nil }})
		})
	}
	v := r.Values()
	if kept, err := v.Store(t.Context(), "k", stampede.Entry{Value: []byte("v"), Keep: time.Hour}); err != nil || !kept {
		t.Errorf("Store: %v, %v", kept, err)
	}
	if e, err := v.Load(t.Context(), "k"); err != nil || string(e.Value) != "v" {
		t.Errorf("Load: %q, %v", e.Value, err)
	}
	noError(t, v.Discard(t.Context(), "k"))
	used := askServer(t, dial(t, clientOption(srv.Addr())), "INFO", "commandstats")
	for _, right := range regexp.MustCompile(`\+(\S+)`).FindAllStringSubmatch(sessionRights, -1) {
		if !strings.Contains(used, "cmdstat_"+right[1]+":") {
			t.Errorf("the user may %s, and never did", right[1])
		}
	}
	other, err := redissession.Open(t.Context(), redisstore.Config{Addrs: []string{srv.Addr()}, Credentials: redisstore.Login("sessions", "PASSWORD")})
	noError(t, err)
	t.Cleanup(func() { noError(t, other.Close()) })
	if err := touch(t, other); err == nil {
		t.Error("the user changed a session outside of its prefix")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "stores", "redissession.md"))
	if os.IsNotExist(err) {
		t.Skip("the documentation is not part of the module")
	}
	noError(t, err)
	if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), sessionRights) {
		t.Error("docs/stores/redissession.md does not show this user")
	}
}
