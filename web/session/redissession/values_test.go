package redissession_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/stampede"
)

// valuesCase is one rule of stampede.Values, on a key of its own.
type valuesCase struct {
	t   *testing.T
	v   stampede.Values
	key string
}

func (c *valuesCase) load() stampede.Entry {
	c.t.Helper()
	e, err := c.v.Load(c.t.Context(), c.key)
	noError(c.t, err)
	return e
}

func (c *valuesCase) store(e stampede.Entry, want bool) {
	c.t.Helper()
	if e.Keep == 0 {
		e.Keep = time.Hour
	}
	if kept, err := c.v.Store(c.t.Context(), c.key, e); kept != want || err != nil {
		c.t.Errorf("Store of %q with fence %d, version %d: %v %v, want %v", e.Value, e.Fence, e.Version, kept, err, want)
	}
}

func (c *valuesCase) discard() {
	c.t.Helper()
	noError(c.t, c.v.Discard(c.t.Context(), c.key))
}

func (c *valuesCase) has(value string) {
	c.t.Helper()
	if e := c.load(); e.Value == nil || string(e.Value) != value {
		c.t.Errorf("%q is kept, want %q", e.Value, value)
	}
}

// waitUntilEmpty waits until no value is kept any more.
func (c *valuesCase) waitUntilEmpty() {
	c.t.Helper()
	c.eventually("it is kept no more", func() bool { return c.load().Value == nil })
}

func (c *valuesCase) eventually(what string, yes func() bool) {
	c.t.Helper()
	eventually(c.t, what, yes)
}

var valuesCases = map[string]func(c *valuesCase){
	"absent": func(c *valuesCase) {
		if e := c.load(); e.Value != nil {
			c.t.Errorf("%q is kept", e.Value)
		}
	},
	"stored": func(c *valuesCase) {
		want := stampede.Entry{Value: []byte("a\n\x00 1"), Fence: 7, Version: c.load().Version, Fresh: 3 * time.Second, Keep: time.Minute, Took: 5}
		c.store(want, true)
		got := c.load()
		if got.Age < 0 || got.Age > time.Minute {
			c.t.Errorf("it is %v old", got.Age)
		}
		if got.Age = 0; fmt.Sprint(got) != fmt.Sprint(want) {
			c.t.Errorf("got %v, want %v", got, want)
		}
	},
	"kept for ever": func(c *valuesCase) {
		const forever = time.Duration(1<<63 - 1)
		c.store(stampede.Entry{Value: []byte("a"), Fresh: forever, Keep: forever}, true)
		c.has("a")
	},
	"empty": func(c *valuesCase) { c.store(stampede.Entry{Value: []byte{}}, true); c.has("") },
	"big": func(c *valuesCase) {
		big := bytes.Repeat([]byte("\xff\n7 "), 200_000)
		c.store(stampede.Entry{Value: big}, true)
		c.has(string(big))
	},
	"fence": func(c *valuesCase) {
		for _, x := range []struct {
			fence uint64
			kept  bool
		}{{9, true}, {10, true}, {9, false}, {10, true}, {1<<63 + 1, true}, {1 << 63, false}, {1<<64 - 1, true}, {0, false}} {
			c.store(stampede.Entry{Value: []byte(fmt.Sprint(x.fence)), Fence: x.fence}, x.kept)
		}
		c.has(fmt.Sprint(uint64(1<<64 - 1)))
		c.discard()
		c.store(stampede.Entry{Value: []byte("new"), Fence: 1, Version: c.load().Version}, true)
	},
	"discard": func(c *valuesCase) {
		seen := map[uint64]bool{}
		for i := range 5 {
			old := c.load().Version
			if seen[old] {
				c.t.Errorf("version %d came back", old)
			}
			seen[old] = true
			c.store(stampede.Entry{Value: []byte("v"), Version: old}, true)
			c.discard()
			if c.load().Value != nil {
				c.t.Error("the value is still there")
			}
			c.store(stampede.Entry{Value: []byte("late"), Version: old, Fence: uint64(i)}, false)
		}
	},
	"version outlives value": func(c *valuesCase) {
		old := c.load().Version
		c.discard()
		now := c.load().Version
		c.store(stampede.Entry{Value: []byte("v"), Version: now, Keep: time.Millisecond}, true)
		c.waitUntilEmpty()
		c.store(stampede.Entry{Value: []byte("late"), Version: old}, false)
		if c.load().Version != now {
			c.t.Error("the version went with the value")
		}
	},
	"kept": func(c *valuesCase) {
		c.store(stampede.Entry{Value: []byte("v"), Fence: 9, Keep: 30 * time.Millisecond}, true)
		c.waitUntilEmpty()
		c.store(stampede.Entry{Value: []byte("w"), Fence: 9, Keep: -1}, true)
		if c.load().Value != nil {
			c.t.Error("kept for longer than it should")
		}
	},
	"age": func(c *valuesCase) {
		c.store(stampede.Entry{Value: []byte("v"), Fresh: time.Nanosecond}, true)
		c.eventually("it grows older", func() bool { return c.load().Age >= 5*time.Millisecond })
		c.store(stampede.Entry{Value: []byte("v"), Keep: time.Nanosecond}, true)
		c.waitUntilEmpty()
	},
	"race": func(c *valuesCase) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				e := stampede.Entry{Value: []byte(fmt.Sprint(i)), Fence: uint64(i), Keep: time.Hour}
				if kept, err := c.v.Store(c.t.Context(), c.key, e); err != nil || i == 19 && !kept {
					c.t.Errorf("%d: %v %v", i, kept, err)
				}
			})
		}
		wg.Wait()
		c.has("19")
	},
}

// TestValues checks the rules of stampede.Values. Memory also runs the cases, which shows that they
// are right.
func TestValues(t *testing.T) {
	t.Parallel()
	single := newRedis(t, dial(t, clientOption(startRedis(t).Addr())))
	cluster := newRedis(t, dial(t, clientOption(server.Redis(t, server.RedisOptions{Cluster: true}).Addr())))
	for place, v := range map[string]stampede.Values{"memory": stampede.NewMemory(), "redis": single.Values(), "cluster": cluster.Values()} {
		for name, f := range valuesCases {
			for _, key := range []string{"k", "} {", "{}", "a{b}c", "\x00é ", strings.Repeat("k", 5000)} {
				t.Run(fmt.Sprintf("%s/%s/%.5q", place, name, key), func(t *testing.T) {
					t.Parallel()
					f(&valuesCase{t, v, key + name})
				})
			}
		}
	}
}

// TestValuesKeep: a value that is too old counts as gone, even while the server, which counts in
// milliseconds, still has it.
func TestValuesKeep(t *testing.T) {
	t.Parallel()
	c := dial(t, clientOption(startRedis(t).Addr()))
	v := newRedis(t, c, redissession.Prefix("{x}")).Values()
	_, err := v.Store(t.Context(), "old", stampede.Entry{Value: []byte("v"), Keep: time.Hour})
	noError(t, err)
	key := strings.Fields(askServer(t, c, "EVAL", "return table.concat(redis.call('KEYS', '*old'), ' ')", "0"))[0]
	askServer(t, c, "SET", key, "0 1 5 5 5\nv") // stored in 1970
	if e, err := v.Load(t.Context(), "old"); err != nil || e.Value != nil {
		t.Errorf("%q is kept, %v", e.Value, err)
	}
}

func TestValuesFail(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	c := dial(t, clientOption(srv.Addr()))
	v := newRedis(t, c, redissession.Prefix("{x}")).Values()
	noError(t, v.Discard(t.Context(), "k"))
	key := strings.Replace(askServer(t, c, "RANDOMKEY"), "version:", "value:", 1)
	askServer(t, c, "SET", key, "somebody else's")
	if e, err := v.Load(t.Context(), "k"); err != nil || e.Value != nil || e.Version == 0 {
		t.Errorf("%v %v", e, err)
	}
	askServer(t, c, "DEL", key)
	askServer(t, c, "SADD", key, "x")
	if _, err := v.Load(t.Context(), "k"); err == nil {
		t.Error("Load of a set: no error")
	}
	srv.Kill()
	if err := v.Discard(t.Context(), "k"); err == nil {
		t.Error("Discard without a server: no error")
	}
	if kept, err := v.Store(t.Context(), "k", stampede.Entry{Value: []byte("v")}); err == nil || kept {
		t.Error("Store without a server: no error")
	}
	if _, err := v.Load(t.Context(), "k"); err == nil {
		t.Error("Load without a server: no error")
	}
}

// TestClose ends the connections.
func TestClose(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Password: "se/cret"})
	o := clientOption(srv.Addr())
	o.Password = "se/cret"
	c := dial(t, o)
	newRedis(t, c).Close()
	u, err := url.Parse(srv.URL() + "/3?prefix=app:")
	noError(t, err)
	r, err := redissession.FromURL(t.Context(), u)
	noError(t, err)
	noError(t, r.Values().Discard(t.Context(), "k"))
	o.SelectDB = 3
	if key := askServer(t, dial(t, o), "RANDOMKEY"); !strings.HasPrefix(key, "app:version:") {
		t.Errorf("the key is %q", key)
	}
	r.Close()
	if err := r.Values().Discard(t.Context(), "k"); err == nil {
		t.Error("it works after Close")
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Password: "secret"})
	for _, text := range []string{
		"redis://:wrongsecret@" + srv.Addr(), "http://:wrongsecret@" + srv.Addr(), "redis://:wrongsecret@" + srv.Addr() + "/x",
		"redis://:wrongsecret@" + srv.Addr() + "?prefx=a", "redis://:wrongsecret@" + srv.Addr() + "?db=1&db=2",
		"redis://:secret@" + srv.Addr() + "?prefix=%7B", "redis://:wrongsecret@127.0.0.1:1", "redis://h?%zz",
	} {
		u, err := url.Parse(text)
		noError(t, err)
		r, err := redissession.FromURL(t.Context(), u)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil {
			r.Close()
		}
	}
}

// TestSilentServer: if the server does not reply, the error does not look like the caller's own
// deadline.
func TestSilentServer(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	c := dial(t, clientOption(startRedis(t).Addr()))
	v := newRedis(t, c).Values()
	_, err := v.Load(t.Context(), "k")
	noError(t, err)
	askServer(t, c, "CLIENT", "PAUSE", "60000", "ALL")
	if _, err := v.Load(t.Context(), "k"); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no reply within") {
		t.Errorf("Load: %v", err)
	}
}

// A value that padlock did not write is neither replaced nor removed.
func TestValueOfAnotherProgram(t *testing.T) {
	t.Parallel()
	raw := dial(t, clientOption(startRedis(t).Addr()))
	v := newRedis(t, raw).Values()
	_, err := v.Store(t.Context(), "k", stampede.Entry{Value: []byte("ours"), Keep: time.Hour})
	noError(t, err)
	key := askServer(t, raw, "RANDOMKEY")
	for _, write := range [][]string{{"SET", key, "theirs"}, {"SET", key, "7"}, {"HSET", key, "a", "b"}, {"ZADD", key, "1", "a"}} {
		askServer(t, raw, "DEL", key)
		askServer(t, raw, write...)
		before := askServer(t, raw, "DUMP", key)
		for _, keep := range []time.Duration{time.Hour, 0} {
			if kept, err := v.Store(t.Context(), "k", stampede.Entry{Value: []byte("ours"), Fence: 9, Keep: keep}); kept || err == nil || !strings.Contains(err.Error(), "not written by this package") {
				t.Errorf("%q: Store: %v, %v", write, kept, err)
			}
		}
		if err := v.Discard(t.Context(), "k"); err == nil {
			t.Errorf("%q: Discard succeeds", write)
		}
		if e, _ := v.Load(t.Context(), "k"); e.Value != nil {
			t.Errorf("%q: Load: %q", write, e.Value)
		}
		if after := askServer(t, raw, "DUMP", key); after != before {
			t.Errorf("%q: was changed to %q", write, after)
		}
	}
}
