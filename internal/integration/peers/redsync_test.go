package peers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
)

// held is a lock that a peer was given.
type held struct {
	token  string
	extend func() error
	free   func() error
}

// peer is a library that keeps a lock as the plain recipe does.
type peer struct {
	name string
	// try makes one try. A nil *held and a nil error: others have the name.
	try func(ctx context.Context, name string, ttl time.Duration) (*held, error)
	// wait polls every 50 ms.
	wait func(ctx context.Context, name string) (*held, error)
}

func peers(t testing.TB, srv *server.Server) []peer {
	c := redis.NewClient(&redis.Options{Addr: srv.Addr(), ReadTimeout: patience}) // otherwise 3 s, and then it asks again
	t.Cleanup(func() { c.Close() })
	return []peer{redsyncPeer(redsync.New(goredis.NewPool(c))), redislockPeer(redislock.New(c))}
}

func redsyncPeer(rs *redsync.Redsync) peer {
	lock := func(ctx context.Context, name string, options ...redsync.Option) (*held, error) {
		m := rs.NewMutex(name, options...)
		var taken *redsync.ErrTaken
		if err := m.LockContext(ctx); errors.As(err, &taken) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		return &held{m.Value(),
			func() error { _, err := m.ExtendContext(ctx); return err },
			func() error { _, err := m.UnlockContext(ctx); return err }}, nil
	}
	return peer{"redsync",
		func(ctx context.Context, name string, ttl time.Duration) (*held, error) {
			return lock(ctx, name, redsync.WithExpiry(ttl), redsync.WithTries(1))
		},
		func(ctx context.Context, name string) (*held, error) {
			return lock(ctx, name, redsync.WithExpiry(time.Minute), redsync.WithTries(1000), redsync.WithRetryDelay(50*time.Millisecond))
		}}
}

func redislockPeer(rl *redislock.Client) peer {
	lock := func(ctx context.Context, name string, ttl time.Duration, o *redislock.Options) (*held, error) {
		l, err := rl.Obtain(ctx, name, ttl, o)
		if errors.Is(err, redislock.ErrNotObtained) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return &held{l.Token(),
			func() error { return l.Refresh(ctx, ttl, nil) },
			func() error { return l.Release(ctx) }}, nil
	}
	return peer{"redislock",
		func(ctx context.Context, name string, ttl time.Duration) (*held, error) {
			return lock(ctx, name, ttl, nil)
		},
		func(ctx context.Context, name string) (*held, error) {
			return lock(ctx, name, time.Minute, &redislock.Options{RetryStrategy: redislock.LinearBackoff(50 * time.Millisecond)})
		}}
}

// has wants a peer to be given the lock.
func (p peer) has(t testing.TB, name string, ttl time.Duration) *held {
	t.Helper()
	h, err := p.try(t.Context(), name, ttl)
	if err != nil || h == nil {
		t.Fatalf("%s on %q: %v, %v", p.name, name, h, err)
	}
	return h
}

func (p peer) refused(t testing.TB, name string) {
	t.Helper()
	if h, err := p.try(t.Context(), name, time.Minute); h != nil || err != nil {
		t.Fatalf("%s on %q, which others have: %v, %v", p.name, name, h, err)
	}
}

// TestPlainRecipeExcludes: redsync, redislock and layout=string respect each other's holds, with
// and without fences.
func TestPlainRecipeExcludes(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for _, fences := range []bool{true, false} {
		opts := []redisstore.Option{redisstore.PlainStrings()}
		if !fences {
			opts = append(opts, redisstore.NoFences())
		}
		s := opened(t, srv, opts...)
		for _, p := range peers(t, srv) {
			name := fmt.Sprint("job of ", p.name, fences)
			ours := request(name)
			take(t, s, ours)
			p.refused(t, name)
			free(t, s, ours)

			theirs := p.has(t, name, time.Minute)
			refused(t, s, request(name))
			if st, err := s.Inspect(t.Context(), name); err != nil || len(st.Holds) != 1 || !st.Holds[0].Foreign || st.Holds[0].Label != "" {
				t.Errorf("a hold of %s is %+v, %v", p.name, st, err)
			}
			if err := theirs.extend(); err != nil {
				t.Error(err)
			}
			if err := theirs.free(); err != nil {
				t.Error(err)
			}
			_, err := s.Acquire(t.Context(), reading(name))
			wantIs(t, err, errors.ErrUnsupported, "a reader")
			expires(t, s, p, name)
			coolsDown(t, s, p, name)
		}
	}
}

// expires makes each side take the name after a lease of the other has expired. The late side must
// not remove the other's lock.
func expires(t *testing.T, s *redisstore.Store, p peer, name string) {
	t.Helper()
	const ttl = 600 * time.Millisecond // redsync gives up a lock whose reply took that long
	var theirs *held
	var err error
	for lease := ttl; theirs == nil; lease *= 2 { // a slow machine gets a longer lease
		if lease > time.Minute {
			t.Fatalf("%s gets no lock: %v", p.name, err)
		}
		theirs, err = p.try(t.Context(), name, lease)
	}
	ours := request(name)
	ours.TTL = ttl
	eventually(t, p.name+"'s lease ends", func() bool {
		_, err := s.Acquire(t.Context(), ours)
		return err == nil
	})
	if err := theirs.free(); err == nil {
		t.Errorf("%s got no error for releasing a lock that it had lost", p.name)
	}
	var next *held
	eventually(t, "our lease ends", func() bool {
		var err error
		next, err = p.try(t.Context(), name, time.Minute)
		return err == nil && next != nil
	})
	if out, err := s.Release(t.Context(), name, ours.Token.Text(), 0); err != nil || out == driver.OutcomeReleased {
		t.Errorf("Release of a lease that ended: %v, %v", out, err)
	}
	_, err = s.Extend(t.Context(), name, ours.Token.Text(), time.Minute)
	wantIs(t, err, driver.ErrLost, "Extend of a lease that ended")
	refused(t, s, request(name))
	if out, err := s.Release(t.Context(), name, next.token, 0); err != nil || out != driver.OutcomeReleased {
		t.Errorf("Release with the token of %s: %v, %v", p.name, out, err)
	}
}

func coolsDown(t *testing.T, s *redisstore.Store, p peer, name string) {
	t.Helper()
	ours := request(name)
	take(t, s, ours)
	if out, err := s.Release(t.Context(), name, ours.Token.Text(), time.Minute); err != nil || out != driver.OutcomeReleased {
		t.Fatal(out, err)
	}
	p.refused(t, name)
}

// TestPlainRecipeWaits makes each side wait for the other. foreign=yes is for clients that look at
// least every 130 ms; redsync's own delay is 50 to 250 ms.
func TestPlainRecipeWaits(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	l := locker(t, srv, redisstore.PlainStrings(), redisstore.Foreign())
	for _, p := range peers(t, srv) {
		name := "job of " + p.name
		lock, err := l.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		p.refused(t, name)
		got := make(chan *held, 1)
		go func() {
			h, err := p.wait(t.Context(), name)
			if err != nil || h == nil {
				t.Errorf("%s, which waited: %v, %v", p.name, h, err)
			}
			got <- h
		}()
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		theirs := <-got
		if theirs == nil {
			return
		}
		done := make(chan error, 1)
		go func() {
			lock, err := l.Acquire(t.Context(), name, padlock.Wait(patience))
			if err == nil {
				err = lock.Release()
			}
			done <- err
		}()
		eventually(t, "we wait", func() bool {
			st, err := l.Inspect(t.Context(), name)
			return err == nil && st.Waiters == 1
		})
		if err := theirs.free(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestLayoutsExclude: a lock of one layout excludes a lock of the other. A plain string key
// excludes both, and is never overwritten.
func TestLayoutsExclude(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	set, p := opened(t, srv), startPHP(t, srv, "")
	for _, other := range peers(t, srv) {
		name := "job of " + other.name
		theirs := other.has(t, name, time.Minute)
		refused(t, set, request(name))
		p.lock(name).cannot("acquire")
		if err := theirs.free(); err != nil {
			t.Errorf("%s lost its lock to the other layout: %v", other.name, err)
		}
	}
}
