package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestReplicasOfASilentServer freezes the primary of a store with the option Replicas. The first
// request after that makes a connection, and still ends with its context.
func TestReplicasOfASilentServer(t *testing.T) {
	t.Parallel()
	primary := server.Redis(t, server.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	replica := server.Redis(t, server.RedisOptions{Args: []string{"--replicaof", "127.0.0.1 " + portOf(primary)}})
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(ask(t, replica, "INFO", "replication"), "master_link_status:up")
	})
	s := openedAt(t, at(primary.Addr()), redisstore.Replicas(1, 0))
	r := request("job")
	primary.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, r)
		ended <- err
	}()
	<-time.After(100 * time.Millisecond) // the connection is being made
	cancel()
	wantIs(t, <-ended, context.Canceled, "Acquire")
	primary.Resume()
	if err := s.Close(); err != nil { // Close waits until the request is given up
		t.Fatal(err)
	}
	st, err := opened(t, primary.Addr()).Inspect(t.Context(), "job")
	if err != nil || len(st.Holds) > 0 {
		t.Errorf("a request that was given up before it was sent has taken the lock: %+v, %v", st, err)
	}
}
