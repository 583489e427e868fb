package redissession_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// TestSwapBehindOneAddress: primary and replica change their roles behind one address, and the
// connections to the demoted server stay open. One request is refused, and all later ones reach the
// new primary, whichever of the client's connections they take.
func TestSwapBehindOneAddress(t *testing.T) {
	t.Parallel()
	primary := server.Redis(t, server.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := server.Redis(t, server.RedisOptions{Args: []string{"--replicaof", host, port}})
	follows := func() {
		eventually(t, "the replica follows", func() bool {
			return strings.Contains(askServer(t, dial(t, clientOption(replica.Addr())), "INFO", "replication"), "master_link_status:up")
		})
	}
	follows()
	front := server.NewProxy(t, primary.Addr())
	r, err := redissession.Open(t.Context(), redisstore.Config{Addrs: []string{front.Addr()}, Dial: server.PatientDial})
	noError(t, err)
	t.Cleanup(func() { noError(t, r.Close()) })
	create := func(s sessionstore.Store) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.Commit(ctx, rand.Text(), sessionstore.Change{Create: true, TTL: time.Minute})
			return err
		}
	}
	values := r.Values()
	for what, write := range map[string]func(context.Context) error{
		"a session":              create(r.Sessions()),
		"a session in one value": create(r.BlobSessions()),
		"a value": func(ctx context.Context) error {
			_, err := values.Store(ctx, "v", stampede.Entry{Value: []byte("x"), Fence: 1, Keep: time.Minute})
			return err
		},
	} {
		var wg sync.WaitGroup
		for range 50 { // uses all connections
			wg.Go(func() {
				if err := write(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		askServer(t, dial(t, clientOption(replica.Addr())), "REPLICAOF", "NO", "ONE")
		host, port, _ := strings.Cut(replica.Addr(), ":")
		askServer(t, dial(t, clientOption(primary.Addr())), "REPLICAOF", host, port)
		primary, replica = replica, primary
		front.Lead(primary.Addr())
		follows()
		if err := write(t.Context()); err == nil || !strings.Contains(err.Error(), "connects anew") ||
			what != "a value" && !errors.Is(err, sessionstore.ErrUnavailable) {
			t.Errorf("%s at the demoted server: %v", what, err)
		}
		for range 50 {
			if err := write(t.Context()); err != nil {
				t.Fatalf("%s after the refusal: %v", what, err)
			}
		}
	}
}
