package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestLostReply is T-R1: a caller that repeats an Acquire after a lost reply gets the same fence.
func TestLostReply(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for _, opts := range [][]redisstore.Option{nil, {redisstore.PlainStrings(), redisstore.Prefix("s:")}} {
		p := server.NewProxy(t, srv.Addr())
		s, other := opened(t, p.Addr(), opts...), opened(t, srv.Addr(), opts...)
		free(t, other, takeRequest(t, other, "so that the server knows the scripts"))
		for i := range 5 {
			// Each lock has a name of its own, because an Acquire takes two requests after a
			// Release that found nothing.
			r := request("job" + strconv.Itoa(i))
			p.LoseReply(changes)
			_, err := s.Acquire(t.Context(), r)
			wantIs(t, err, driver.ErrUncertain, "Acquire whose reply was lost")
			st, err := other.Inspect(t.Context(), r.Name)
			if err != nil || len(st.Holds) != 1 {
				t.Fatalf("after an Acquire whose reply was lost: %+v, %v", st, err)
			}
			if g := take(t, s, r); g.Fence != st.Fence {
				t.Errorf("the first request got fence %d, its repeat %d", st.Fence, g.Fence)
			}
			p.LoseReply(changes)
			_, err = s.Release(t.Context(), r.Name, r.Token.Text(), 0)
			wantIs(t, err, driver.ErrUncertain, "Release whose reply was lost")
			if out, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0); err != nil || out != driver.OutcomeGone {
				t.Errorf("its repeat: %v, %v", out, err)
			}
		}
	}
}

// TestScriptFlush makes the server forget the scripts.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr())
	flush := func() { ask(t, srv, "SCRIPT", "FLUSH") }
	r := request("job")
	flush()
	take(t, s, r)
	flush()
	if _, err := s.Extend(t.Context(), "job", r.Token.Text(), r.TTL); err != nil {
		t.Error(err)
	}
	flush()
	_, err := s.Acquire(t.Context(), reading(request("job")))
	wantIs(t, err, driver.ErrHeld, "a reader")
	flush()
	if st, err := s.List(t.Context(), ""); err != nil || len(st) != 1 {
		t.Errorf("List: %v, %v", st, err)
	}
	w := waits(t, s, "job")
	flush()
	free(t, s, r)
	w.got()
}

// TestFlushAll: the server loses all data while a lock is held. The holder learns of the loss, and
// fences still grow.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr())
	r := request("job")
	first := take(t, s, r)
	ask(t, srv, "FLUSHALL")
	_, err := s.Extend(t.Context(), "job", r.Token.Text(), r.TTL)
	wantIs(t, err, driver.ErrLost, "Extend after FLUSHALL")
	safety.Rises(t, take(t, s, request("job")).Fence, first.Fence)
}

// TestClientKill cuts all connections again and again under load: no two holds overlap, and no key
// is left behind.
func TestClientKill(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	var inside sync.Mutex
	var wg sync.WaitGroup
	const enough = 20 // holds, and at least two seconds
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began, holds, last := time.Now(), 0, uint64(0)
	for range 3 {
		s := opened(t, srv.Addr())
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					hold(ctx, t, s, "job", func(fence uint64) {
						if !inside.TryLock() {
							safety.TwoHold(t, "the lock has a holder already")
							return
						}
						if holds++; holds >= enough && time.Since(began) > 2*time.Second {
							cancel()
						}
						safety.Rises(t, fence, last)
						last = fence
						inside.Unlock()
					})
				}
			})
		}
	}
	killer := rawClient(t, single(srv.Addr()))
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		for _, kind := range []string{"normal", "pubsub"} {
			askBy(t, killer, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
		}
	}
	wg.Wait()
	if holds < enough {
		t.Errorf("only %d holds", holds)
	}
	s := opened(t, srv.Addr())
	eventually(t, "everything is given back", func() bool {
		st, err := s.Inspect(t.Context(), "job")
		return err == nil && len(st.Holds) == 0 && st.Waiters == 0
	})
}

// hold takes the lock as a Locker does, in spite of failures, calls f and releases the lock.
func hold(ctx context.Context, t *testing.T, s *redisstore.Store, name string, f func(fence uint64)) {
	giveUp := func(r driver.Request) {
		for {
			if _, err := s.Release(context.Background(), name, r.Token.Text(), 0); err == nil {
				return
			}
		}
	}
	r := request(name)
	for ctx.Err() == nil {
		g, err := s.Acquire(ctx, r)
		switch {
		case err == nil:
			f(g.Fence)
			giveUp(r)
			return
		case errors.Is(err, driver.ErrHeld):
			r = request(name)
			if g, err = s.Wait(ctx, r, true); err != nil || g.TTL == 0 {
				r = request(name)
			}
		case errors.Is(err, driver.ErrUncertain):
		case errors.Is(err, driver.ErrUnavailable):
		case ctx.Err() != nil:
		default:
			t.Errorf("Acquire: %v", err)
		}
	}
	giveUp(r)
}

// TestSilence freezes the server. Every call ends with its context, or within MaxSilence. A
// repeated request shows whether the first one was carried out.
func TestSilence(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := openedAt(t, at(srv.Addr()))
	r := request("job")
	take(t, s, r)
	srv.Pause()
	for range 2 { // first on the old connection, then on a new one that gets no answer
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := s.Extend(ctx, "job", r.Token.Text(), r.TTL)
		wantIs(t, err, context.DeadlineExceeded, "Extend with a context")
		began := time.Now()
		_, err = s.Acquire(context.Background(), request("other"))
		if took := time.Since(began); err == nil || took > 2*driver.MaxSilence { // the machine may be busy
			t.Errorf("Acquire without an end of its context answered after %v: %v", took, err)
		}
	}
	srv.Resume()
	eventually(t, "the hold is verified", func() bool {
		_, err := s.Extend(t.Context(), "job", r.Token.Text(), 0)
		return err == nil
	})
}

const canary = "c4n4ry-Pa55word"

// TestCanary looks for secrets in errors and other texts.
func TestCanary(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Password: canary})
	var said []string
	url := "redis://:" + canary + "@" + srv.Addr()
	for _, suffix := range []string{"", "?lazy=yes", "/x", "?sentinel-password=" + canary, "?no=" + canary, "?tls=" + canary, "?max-ttl=" + canary} {
		said = append(said, saidBy(t, url+suffix)...)
	}
	for _, user := range []string{":wrong" + canary, "user" + canary + ":" + canary} {
		_, err := redisstore.FromURL(t.Context(), mustParse(t, "redis://"+user+"@"+srv.Addr()))
		wantIs(t, err, driver.ErrUnavailable, "a wrong password")
		said = append(said, err.Error())
	}
	// A server that does not know a command quotes the command's arguments in its error.
	strict := server.Redis(t, server.RedisOptions{Password: canary, Args: []string{"--rename-command", "EVALSHA", "", "--rename-command", "SET", ""}})
	said = append(said, saidBy(t, "redis://:"+canary+"@"+strict.Addr())...)
	if len(said) < 40 {
		t.Fatalf("only %d things were said", len(said))
	}
	unknown := false
	for _, text := range said {
		unknown = unknown || strings.Contains(text, "unknown command")
		if strings.Contains(text, canary) {
			t.Errorf("a secret is in the text: %s", text)
		}
	}
	if !unknown {
		t.Error("no command was unknown")
	}
}

// saidBy returns all texts of a store about a lock with a secret token.
func saidBy(t *testing.T, rawURL string) (said []string) {
	say := func(err error) {
		if err != nil {
			said = append(said, err.Error())
		}
	}
	s, err := redisstore.FromURL(t.Context(), mustParse(t, rawURL))
	say(err)
	if err != nil {
		return said
	}
	defer s.Close()
	r := request("job")
	r.Token = driver.TokenOf(canary + "-token")
	_, err = s.Acquire(t.Context(), r)
	say(err)
	_, err = s.Acquire(t.Context(), request("job"))
	say(err)
	found, err := s.Status(t.Context())
	say(err)
	for _, f := range found {
		said = append(said, f.Name+f.Value+f.Advice)
	}
	st, err := s.Inspect(t.Context(), "job")
	say(err)
	for _, h := range st.Holds {
		said = append(said, h.String(), h.Label, h.Host)
	}
	return append(said, s.String(), strings.Join(s.Guarantees().Notes, " "))
}
