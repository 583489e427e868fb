package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// applicationSets are sorted sets that an application may have: times in seconds that are over for
// a lock, times in milliseconds to come, ranks, and a member that is longer than any token.
var applicationSets = map[string][]string{
	"seconds":  {"1795761756", "5", "1795761757", "6"},
	"to come":  {"4102444800000", "user:1", "4102444800001", "user:2"},
	"mixed":    {"1", "a", "4102444800000", "b"},
	"negative": {"-3", "a"},
	"long":     {"1", strings.Repeat("x", 200)},
	"dashes":   {"1", "01234567-89ab-cdef-0123-456789abcdef-0000000="},
}

// TestApplicationsSortedSet: a sorted set that no lock library has written is no lock. Every verb
// refuses it, and it stays as it is.
func TestApplicationsSortedSet(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	for kind, opts := range map[string][]redisstore.Option{"": nil, "foreign ": {redisstore.Foreign()}, "alone ": {redisstore.OnlyPadlock()}} {
		s := opened(t, srv.Addr(), opts...)
		for name, members := range applicationSets {
			name = kind + name
			askBy(t, c, append([]string{"ZADD", name}, members...)...)
			before := setAt(t, c, name)
			for verb, call := range everyVerb(s, name) {
				err := call(t.Context())
				if errors.Is(err, errors.ErrUnsupported) {
					continue
				}
				if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("%q holds a zset", name)) {
					t.Errorf("%s of %q: %v", verb, name, err)
				}
				if after := setAt(t, c, name); after != before {
					safety.Broken(t, "%s of %q has changed the application's sorted set from %s to %s", verb, name, before, after)
					t.FailNow()
				}
			}
		}
		states, err := s.List(t.Context(), "")
		if err != nil || len(states) > 0 {
			t.Errorf("List has %+v, %v", states, err)
		}
	}
}

// setAt returns all members of a sorted set with their scores, and the expiry of its key.
func setAt(t *testing.T, c rueidis.Client, key string) string {
	t.Helper()
	all, err := c.Do(t.Context(), c.B().Arbitrary("ZRANGE", key, "0", "-1", "WITHSCORES").Build()).ToAny()
	if err != nil {
		t.Fatal(err)
	}
	text := askBy(t, c, "PTTL", key)
	for _, m := range all.([]any) {
		pair := m.([]any)
		text += " " + pair[0].(string) + "=" + askBy(t, c, "ZSCORE", key, pair[0].(string))
	}
	return text
}

// everyVerb has a call of each verb of a store on a name. None of the calls has a hold there.
func everyVerb(s *redisstore.Store, name string) map[string]func(context.Context) error {
	r := request(name)
	return map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error { _, err := s.Acquire(ctx, r); return err },
		"a shared Acquire": func(ctx context.Context) error {
			_, err := s.Acquire(ctx, reading(request(name)))
			return err
		},
		"Wait":       func(ctx context.Context) error { _, err := s.Wait(ctx, r, true); return err },
		"Wait aside": func(ctx context.Context) error { _, err := s.Wait(ctx, r, false); return err },
		"Extend":     func(ctx context.Context) error { _, err := s.Extend(ctx, name, r.Token.Text(), r.TTL); return err },
		"Check":      func(ctx context.Context) error { _, err := s.Extend(ctx, name, r.Token.Text(), 0); return err },
		"ExtendBatch": func(ctx context.Context) error {
			out, err := s.ExtendBatch(ctx, []fast.Extension{{Name: name, Token: r.Token, TTL: r.TTL}})
			if err == nil {
				err = out[0].Err
			}
			return err
		},
		"Convert":    func(ctx context.Context) error { _, err := s.Convert(ctx, r); return err },
		"RaiseFence": func(ctx context.Context) error { return s.RaiseFence(ctx, name, r.Token.Text(), 1<<52) },
		"Release":    func(ctx context.Context) error { _, err := s.Release(ctx, name, r.Token.Text(), 0); return err },
		"a cool-down": func(ctx context.Context) error {
			_, err := s.Release(ctx, name, r.Token.Text(), time.Minute)
			return err
		},
		"Pass":    func(ctx context.Context) error { _, _, err := s.Pass(ctx, newToken(), r); return err },
		"Inspect": func(ctx context.Context) error { _, err := s.Inspect(ctx, name); return err },
		"Break":   func(ctx context.Context) error { _, err := s.Break(ctx, name, 0); return err },
	}
}

// TestBreakLeavesValues: a string that padlock did not write may be any value of an application.
// Break does not remove it. It still ends padlock's own locks, and those of PHP's older Symfony.
func TestBreakLeavesValues(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	askBy(t, c, "SET", "cached", "a page", "PX", "60000")
	askBy(t, c, "SET", "older", newToken(), "PX", "60000")
	for _, opts := range [][]redisstore.Option{nil, {redisstore.PlainStrings()}} {
		s := opened(t, srv.Addr(), opts...)
		_, err := s.Break(t.Context(), "cached", 0)
		wantIs(t, err, driver.ErrInvalid, "Break of a value")
		if got := askBy(t, c, "GET", "cached"); got != "a page" {
			safety.Broken(t, "Break has changed the application's value to %q", got)
			t.FailNow()
		}
	}
	s := opened(t, srv.Addr(), redisstore.PlainStrings())
	r := request("ours")
	r.Token = driver.TokenOf("job-17") // a token of the caller's
	take(t, s, r)
	for name, fence := range map[string]uint64{"ours": inspect(t, s, "ours").Fence, "older": 0} {
		if _, err := s.Break(t.Context(), name, fence); err != nil {
			t.Errorf("Break of %s: %v", name, err)
		}
		if got := askBy(t, c, "EXISTS", name); got != "0" {
			t.Errorf("after Break of %s, its key is still there", name)
		}
	}
}

func inspect(t *testing.T, s driver.Admin, name string) driver.State {
	t.Helper()
	st, err := s.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestApplicationWritesDuringAHold: an application adds members to a key that is a lock, because it
// gave the lock the name of its own key. When the hold ends, these members are left, without an
// expiry, and the name is refused from then on.
func TestApplicationWritesDuringAHold(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	s := opened(t, srv.Addr())
	ends := map[string]func(ctx context.Context, r driver.Request) error{
		"release": func(ctx context.Context, r driver.Request) error {
			_, err := s.Release(ctx, r.Name, r.Token.Text(), 0)
			return err
		},
		"extend and release": func(ctx context.Context, r driver.Request) error {
			_, err := s.Extend(ctx, r.Name, r.Token.Text(), r.TTL)
			_, released := s.Release(ctx, r.Name, r.Token.Text(), 0)
			return errors.Join(err, released)
		},
		"break": func(ctx context.Context, r driver.Request) error {
			_, err := s.Break(ctx, r.Name, inspect(t, s, r.Name).Fence)
			return err
		},
		"demote and release": func(ctx context.Context, r driver.Request) error {
			_, err := s.Convert(ctx, reading(r))
			_, released := s.Release(ctx, r.Name, r.Token.Text(), 0)
			return errors.Join(err, released)
		},
		"pass": func(ctx context.Context, r driver.Request) error {
			out, g, err := s.Pass(ctx, r.Token.Text(), request(r.Name))
			if out != driver.OutcomeReleased || g.TTL > 0 {
				return fmt.Errorf("%v, %+v, %w", out, g, err)
			}
			return err
		},
		"a refused try and release": func(ctx context.Context, r driver.Request) error {
			_, err := s.Acquire(ctx, request(r.Name))
			if !errors.Is(err, driver.ErrHeld) {
				return err
			}
			_, err = s.Release(ctx, r.Name, r.Token.Text(), 0)
			return err
		},
	}
	for how, end := range ends {
		for _, score := range []string{"1", "1795761756", "4102444800000"} {
			r := request(how + " " + score)
			take(t, s, r)
			askBy(t, c, "ZADD", r.Name, score, "a", score, "b")
			if err := end(t.Context(), r); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
			if got, want := setAt(t, c, r.Name), "-1 a="+score+" b="+score; got != want {
				safety.Broken(t, "after %s, the application's sorted set is %s, want %s", r.Name, got, want)
			}
			_, err := s.Acquire(t.Context(), request(r.Name))
			wantIs(t, err, driver.ErrInvalid, "Acquire of a key that is the application's now")
		}
	}
}

// TestApplicationWritesBeforeTheHolderDies: the first renewal after the application's write keeps
// the key from expiring with the lease.
func TestApplicationWritesBeforeTheHolderDies(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	s := opened(t, srv.Addr())
	r := request("feed")
	take(t, s, r)
	askBy(t, c, "ZADD", "feed", "5", "a")
	out, err := s.ExtendBatch(t.Context(), []fast.Extension{{Name: r.Name, Token: r.Token, TTL: r.TTL}})
	if err != nil || out[0].Err != nil || out[0].Grant.Shared {
		t.Fatal(out, err)
	}
	if got := askBy(t, c, "PTTL", "feed"); got != "-1" {
		safety.Broken(t, "the key with the application's member expires in %s ms", got)
	}
}

// TestApplicationWritesWhileOthersWait: the waiters learn that the key is no lock any more.
func TestApplicationWritesWhileOthersWait(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	s, other := opened(t, srv.Addr()), opened(t, srv.Addr())
	r := request("feed")
	take(t, s, r)
	failed := make(chan error, 1)
	go func() {
		_, err := other.Wait(context.WithoutCancel(t.Context()), request("feed"), true)
		failed <- err
	}()
	eventually(t, "the waiter is in the queue", func() bool { return askBy(t, c, "ZCARD", companion(t, c, "q", "feed")) == "1" })
	askBy(t, c, "ZADD", "feed", "4102444800000", "a")
	free(t, s, r)
	if err := <-failed; !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("the waiter got: %v", err)
	}
	if got := setAt(t, c, "feed"); got != "-1 a=4102444800000" {
		safety.Broken(t, "the application's sorted set is %s", got)
	}
}
