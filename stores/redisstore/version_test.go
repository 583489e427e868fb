package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// dump returns all keys of a server, each with its value and its expiry.
func dump(t *testing.T, c rueidis.Client) map[string]string {
	t.Helper()
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, key := range keys {
		all[key] = askBy(t, c, "DUMP", key) + " " + askBy(t, c, "PEXPIRETIME", key)
	}
	return all
}

// TestLaterVersionIsRefused gives names notes as a later version of padlock would. Every request
// fails, says what to do, and changes nothing.
func TestLaterVersionIsRefused(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redisstore.Option{
		"set": nil, "string": {redisstore.PlainStrings()}, "pollers": {redisstore.Foreign()},
		"only padlock": {redisstore.OnlyPadlock()}, "without fences": {redisstore.NoFences()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			s, c := opened(t, srv.Addr(), opts...), rawClient(t, single(srv.Addr()))
			for state, flag := range map[string]string{"held": "B", "waited for": "b"} {
				r, next := request(state), request(state)
				take(t, s, r)
				if state == "waited for" {
					waits(t, s, state)
				}
				askBy(t, c, "SETRANGE", companion(t, c, "f", state), "0", flag)
				before := dump(t, c)
				for what, err := range tryAll(t, s, r, next) {
					if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "notes of version 2") || strings.Contains(err.Error(), r.Token.Text()) {
						t.Errorf("%s of a name that is %s: %v", what, state, err)
					}
				}
				for key, value := range dump(t, c) {
					if before[key] != value {
						t.Errorf("%s: the key %q was changed", state, key)
					}
				}
			}
		})
	}
}

// tryAll makes every request for a name, r being its hold.
func tryAll(t *testing.T, s *redisstore.Store, r, next driver.Request) map[string]error {
	t.Helper()
	ctx := t.Context()
	got := map[string]error{}
	_, got["Acquire"] = s.Acquire(ctx, next)
	_, got["a repeated Acquire"] = s.Acquire(ctx, r)
	_, got["Extend"] = s.Extend(ctx, r.Name, r.Token.Text(), r.TTL+time.Second)
	_, got["Extend by nothing"] = s.Extend(ctx, r.Name, r.Token.Text(), 0)
	_, got["Release"] = s.Release(ctx, r.Name, r.Token.Text(), 0)
	_, got["Release with a cool-down"] = s.Release(ctx, r.Name, r.Token.Text(), time.Second)
	_, got["Break"] = s.Break(ctx, r.Name, 0)
	_, got["Inspect"] = s.Inspect(ctx, r.Name)
	_, got["List"] = s.List(ctx, r.Name)
	got["RaiseFence"] = s.RaiseFence(ctx, r.Name, r.Token.Text(), 1<<52)
	_, got["Convert"] = s.Convert(ctx, r)
	if _, _, err := s.Pass(ctx, r.Token.Text(), next); !errors.Is(err, errors.ErrUnsupported) {
		got["Pass"] = err
	}
	_, got["Wait"] = s.Wait(ctx, next, true) // for 3 s, as for a server that is away
	swaps := next
	swaps.Replaces = r.Token
	_, got["Acquire in place of a token"] = s.Acquire(ctx, swaps)
	return got
}

// TestLaterVersionOfAFreeName leaves the note of a free name as it is, so that the fence stays.
func TestLaterVersionOfAFreeName(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	for prefix, opts := range map[string][]redisstore.Option{"set:": nil, "string:": {redisstore.PlainStrings()}} {
		s := opened(t, srv.Addr(), append(opts, redisstore.Prefix(prefix))...)
		r := request("job")
		take(t, s, r)
		free(t, s, r)
		keys, err := c.Do(t.Context(), c.B().Keys().Pattern(prefix+"padlock:{???}f:job").Build()).AsStrSlice()
		if err != nil || len(keys) != 1 {
			t.Fatal(keys, err)
		}
		askBy(t, c, "SETRANGE", keys[0], "0", "B")
		before := askBy(t, c, "GET", keys[0])
		_, err = s.Acquire(t.Context(), request("job"))
		wantIs(t, err, driver.ErrUnavailable, "Acquire of a free name with a note of version 2")
		if after := askBy(t, c, "GET", keys[0]); after != before {
			t.Errorf("the note was %q and is %q", before, after)
		}
		if n := askBy(t, c, "EXISTS", prefix+"job"); n != "0" {
			t.Error("the name is held")
		}
	}
}
