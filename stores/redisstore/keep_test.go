package redisstore_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestNotesOutliveTheirFences: after each kind of request, the note of a name expires when the
// clock is FenceKeep past both its fence and the end of its lease, and not much later.
func TestNotesOutliveTheirFences(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	if keep := redisstore.DefaultFenceKeep; keep < time.Hour || keep > 2*time.Hour {
		t.Errorf("the default is %v: it should cover an hour, the size of a mistake about the time zone, and no more", keep)
	}
	for name, opts := range layouts {
		s := opened(t, srv.Addr(), opts...)
		if s.Guarantees().Fence == driver.FenceNone {
			continue
		}
		expires := func(what string, fence uint64, lease time.Duration) {
			t.Helper()
			keys, err := c.Do(t.Context(), c.B().Keys().Pattern("*padlock:{???}f:"+name).Build()).AsStrSlice()
			if err != nil || len(keys) != 1 {
				t.Fatal(keys, err)
			}
			ms, err := strconv.ParseInt(askBy(t, c, "PEXPIRETIME", keys[0]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			late := max(time.Until(time.UnixMicro(int64(fence))), 0)
			const slack = 2*time.Minute + 30*time.Second // how long the records of waiters are kept, and some time for a slow machine
			if left := time.Until(time.UnixMilli(ms)) - late; left < redisstore.DefaultFenceKeep-time.Second-slack/10 || left > redisstore.DefaultFenceKeep+lease+slack {
				t.Errorf("%s, %s: the note lives on for %v after its fence", name, what, left)
			}
			askBy(t, c, "DEL", keys[0])
		}
		r := request(name)
		r.TTL = 10 * time.Second
		g := take(t, s, r)
		free(t, s, r)
		expires("an ordinary hold", g.Fence, r.TTL)

		ahead := request(name)
		ahead.FenceAbove = uint64(time.Now().Add(3 * time.Hour).UnixMicro())
		g = take(t, s, ahead)
		free(t, s, ahead)
		safety.Rises(t, g.Fence, ahead.FenceAbove)
		expires("FenceAbove", g.Fence, ahead.TTL)

		block := request(name)
		g = take(t, s, block)
		last := g.Fence + uint64(2*time.Hour/time.Microsecond)
		if err := s.RaiseFence(t.Context(), name, block.Token.Text(), last); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Extend(t.Context(), name, block.Token.Text(), block.TTL+5*time.Second); err != nil {
			t.Fatal(err)
		}
		free(t, s, block)
		next := request(name)
		g = take(t, s, next)
		safety.Rises(t, g.Fence, last)
		free(t, s, next)
		expires("a block of fences", g.Fence, block.TTL+5*time.Second)
	}
}

var usedMemory = regexp.MustCompile(`used_memory:(\d+)`)

// TestBytesOfAName measures the memory of a name that was used once.
func TestBytesOfAName(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	used := func() int64 {
		info, err := c.Do(t.Context(), c.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		for _, f := range usedMemory.FindStringSubmatch(info)[1:] {
			n, _ = strconv.ParseInt(f, 10, 64)
		}
		return n
	}
	s := opened(t, srv.Addr())
	const names = 5000
	r := request("warm")
	take(t, s, r)
	free(t, s, r)
	before := used()
	for i := range names {
		r := request("customer:00000000-0000-0000-0000-" + strconv.Itoa(1000000000+i))
		take(t, s, r)
		free(t, s, r)
	}
	each := (used() - before) / names
	t.Logf("a name of 42 bytes costs %d bytes", each)
	if each > 400 {
		t.Errorf("that is more than docs/stores/redis.md says")
	}
}
