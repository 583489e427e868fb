package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// scenarios are sequences of calls, each of which ends with a Release.
var scenarios = map[string]func(context.Context, *etcdstore.Store, *etcdstore.Store, string){
	"wait": func(ctx context.Context, s, other *etcdstore.Store, name string) {
		other.Acquire(ctx, request(name, "other"))
		done := make(chan driver.Grant, 1)
		go func() { g, _ := s.Wait(ctx, request(name, "mine"), true); done <- g }()
		settle()
		other.Release(ctx, name, "other", 0)
		if g := <-done; g.TTL > 0 {
			release(ctx, s, name)
		}
	},
	"hand over": func(ctx context.Context, s, other *etcdstore.Store, name string) {
		other.Acquire(ctx, request(name, "other"))
		done, behind := make(chan driver.Grant, 1), make(chan driver.Grant, 1)
		go func() { g, _ := s.Wait(ctx, request(name, "mine"), true); done <- g }()
		settle()
		go func() { g, _ := other.Wait(ctx, request(name, "behind"), true); behind <- g }()
		settle()
		other.Release(ctx, name, "other", 0)
		if g := <-done; g.TTL > 0 {
			release(ctx, s, name)
		}
		<-behind
		for ctx.Err() == nil {
			if _, err := other.Release(ctx, name, "behind", 0); err == nil {
				return
			}
		}
	},
	"convert": func(ctx context.Context, s, _ *etcdstore.Store, name string) {
		r := request(name, "mine")
		r.Shared = true
		s.Acquire(ctx, r)
		r.Shared = false
		s.Convert(ctx, r)
		r.Shared = true
		s.Convert(ctx, r)
		release(ctx, s, name)
	},
	"replace": func(ctx context.Context, s, _ *etcdstore.Store, name string) {
		s.Acquire(ctx, request(name, "old"))
		r := request(name, "mine")
		r.Replaces = driver.TokenOf("old")
		s.Acquire(ctx, r)
		for _, token := range []string{"old", "mine"} {
			for range 5 {
				if _, err := s.Release(ctx, name, token, 0); err == nil {
					break
				}
			}
		}
	},
}

// TestLostReplies loses the reply to one request of a scenario, at each step in turn. Afterwards
// another store can take the name, and nothing was left behind.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	observer := mustOpen(t, []string{srv.Addr()})
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for step := range 8 {
				p := server.NewProxy(t, srv.Addr())
				s := mustOpen(t, []string{p.Addr()})
				seen := 0
				p.LoseReply(func(request []byte) bool {
					if aData(request) {
						seen++
					}
					return seen == step+1
				})
				lock := fmt.Sprint(name, step)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				scenario(ctx, s, observer, lock)
				cancel()
				server.Eventually(t, func() error {
					_, err := observer.Acquire(t.Context(), request(lock, fmt.Sprint("observer ", time.Now())))
					if err != nil && !errors.Is(err, driver.ErrHeld) && !unanswered(err) {
						t.Fatal(err)
					}
					return err
				})
				if st, err := observer.Inspect(t.Context(), lock); err != nil || len(st.Holds) != 1 || st.Waiters != 0 {
					t.Errorf("step %d left %+v, %v", step, st, err)
				}
			}
		})
	}
}

// settle gives a waiter time to join the queue.
func settle() { <-time.After(200 * time.Millisecond) }

// release repeats Release until its outcome is known, as a caller does.
func release(ctx context.Context, s *etcdstore.Store, name string) {
	for ctx.Err() == nil {
		if _, err := s.Release(ctx, name, "mine", 0); err == nil {
			return
		}
	}
}
