package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/explore/store"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/redis/rueidis"
)

// clockKey has the time in microseconds that the scripts of this test see.
const clockKey = "everyorder:clock"

// ownClock stands before each script of this test. The scripts then see the time of clockKey, which
// is in the year 2096: keys expire by it, when a script first uses them, and never by the server's.
const ownClock = `local redis = (function()
  local real, us = redis, tonumber(redis.call('GET', '` + clockKey + `'))
  local ms = math.floor(us / 1000)
  local function int(x) return string.format('%.0f', x) end
  for _, k in ipairs(KEYS) do
    local e = real.call('PEXPIRETIME', k)
    if e >= 0 and e <= ms then real.call('DEL', k) end
  end
  local function by(f)
    return function(cmd, key, ...)
      local a = { ... }
      if cmd == 'TIME' then return { int(math.floor(us / 1000000)), int(us % 1000000) } end
      if cmd == 'PTTL' then
        local e = real.call('PEXPIRETIME', key)
        return e < 0 and e or e - ms
      end
      if cmd == 'PEXPIRE' then cmd, a[1] = 'PEXPIREAT', int(ms + a[1]) end
      for i = 2, #a do
        if cmd == 'SET' and a[i] == 'PX' then a[i], a[i + 1] = 'PXAT', int(ms + a[i + 1]) end
      end
      return f(cmd, key, unpack(a))
    end
  end
  return { call = by(real.call), pcall = by(real.pcall), error_reply = real.error_reply }
end)()
`

// A plant is a bug of one line in a script. The space is where the comparison finds it.
type plant struct{ space, file, old, new string }

// scriptsWith makes the scripts with a clock of their own and, unless it is nil, with a bug.
func scriptsWith(t *testing.T, p *plant) *scripts {
	return newScripts("set", func(files ...string) *script {
		text := spell(ownClock)
		for _, f := range files {
			b, err := sources.ReadFile("lua/" + f + ".lua")
			if err != nil {
				t.Fatal(err)
			}
			file := string(b)
			if p != nil && p.file == f {
				if n := strings.Count(file, p.old); n != 1 {
					t.Fatalf("%q stands in %s.lua %d times", p.old, f, n)
				}
				file = strings.Replace(file, p.old, p.new, 1)
			}
			text += spell(file)
		}
		sum := sha1.Sum([]byte(text))
		return &script{text, hex.EncodeToString(sum[:])}
	})
}

// lua is the scripts as a twin of package decide. Its only name is "n".
type lua struct {
	s *Store
	c *connected
	l lock
}

// A dumped is a key as the server dumps it.
type dumped struct{ key, value, until string }

func (x *lua) Do(saved any, c *store.Call) (store.Answer, store.Seen, error) {
	ctx := context.Background()
	at := func(args ...string) rueidis.Completed { return x.c.B().Arbitrary(args...).Build() }
	before := rueidis.Commands{at("FLUSHDB"), at("SET", clockKey, strconv.FormatInt(int64(c.Now), 10))}
	if list, ok := saved.([]dumped); ok {
		for _, d := range list {
			before = append(before, at("RESTORE", d.key, d.until, d.value, "ABSTTL"))
		}
	}
	for _, resp := range x.c.DoMulti(ctx, before...) {
		if err := resp.Error(); err != nil {
			return store.Answer{}, store.Seen{}, err
		}
	}
	answer := x.ask(ctx, c)
	seen, err := x.look(ctx)
	return answer, seen, err
}

func (x *lua) ask(ctx context.Context, c *store.Call) store.Answer {
	r := driver.Request{Name: "n", Token: driver.TokenOf(c.Token), TTL: c.Space.TTL, FenceAbove: c.Fence, Holder: driver.Holder{PID: c.PID}}
	var g driver.Grant
	var a store.Answer
	switch c.Verb {
	case store.Share, store.ShareAbove:
		r.Shared = true
		fallthrough
	case store.Acquire, store.AcquireAbove, store.Replace:
		if c.Verb == store.Replace {
			r.Replaces = driver.TokenOf(c.Other)
		}
		g, a.Err = x.s.Acquire(ctx, r)
	case store.Extend:
		g, a.Err = x.s.Extend(ctx, "n", c.Token, r.TTL)
	case store.Promote, store.Demote:
		r.Shared = c.Verb == store.Demote
		g, a.Err = x.s.Convert(ctx, r)
	case store.Release:
		a.Outcome, a.Err = x.s.Release(ctx, "n", c.Token, 0)
	case store.ReleaseKeep:
		a.Outcome, a.Err = x.s.Release(ctx, "n", c.Token, c.Space.Keep)
	case store.Break:
		g.Fence, a.Err = x.s.Break(ctx, "n", c.Fence)
	case store.Raise:
		a.Err = x.s.RaiseFence(ctx, "n", c.Token, c.Fence)
	}
	if a.Fence = g.Fence; g.TTL > 0 {
		a.Until = c.Now.Add(g.TTL)
	}
	return a
}

// look reads what inspect.lua shows, which Inspect returns by another clock.
func (x *lua) look(ctx context.Context) (seen store.Seen, err error) {
	a, err := x.s.runScript(ctx, x.c, x.s.scripts.inspect, "n")
	if err != nil {
		return seen, err
	}
	ms := a.number(0)
	holds, ok := readHolds(&a.rest[2], ms)
	if !ok {
		return seen, errors.New("inspect.lua shows no list of holds")
	}
	list, _ := a.rest[2].ToArray()
	for i, h := range holds {
		fields, _ := list[i].AsStrSlice()
		until := decide.Time(atoi(fields[1]) * 1000)
		if h.Cooling {
			seen.Cool = until
			continue
		}
		seen.Holds = append(seen.Holds, store.SeenHold{PID: h.PID, Shared: h.Shared, Until: until})
	}
	slices.SortFunc(seen.Holds, func(a, b store.SeenHold) int { return a.PID - b.PID })
	fence, err := a.rest[3].AsInt64()
	seen.Fence = uint64(fence)
	return seen, err
}

func (x *lua) Save() (any, error) {
	ctx := context.Background()
	var cmds rueidis.Commands
	for _, key := range x.l.keys {
		cmds = append(cmds, x.c.B().Arbitrary("DUMP", key).Build(), x.c.B().Arbitrary("PEXPIRETIME", key).Build())
	}
	all := x.c.DoMulti(ctx, cmds...)
	var list []dumped
	for i, key := range x.l.keys {
		value, err := all[2*i].ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		until, err2 := all[2*i+1].AsInt64()
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		list = append(list, dumped{key, value, strconv.FormatInt(max(0, until), 10)})
	}
	return list, nil
}

func (x *lua) Shares(c *store.Call) (bool, error) {
	r := driver.Request{Name: "n", Token: driver.TokenOf("newcomer"), TTL: c.Space.TTL, Shared: true}
	_, err := x.s.Acquire(context.Background(), r)
	if errors.Is(err, driver.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// twinOfDecide opens a store on a server of its own.
func twinOfDecide(t *testing.T, p *plant) *lua {
	srv := server.Redis(t, server.RedisOptions{})
	s, err := Open(t.Context(), Config{Addrs: []string{srv.Addr()}}, MaxTTL(time.Hour), OnlyPadlock(), RestartGuard(GuardOff))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.scripts = scriptsWith(t, p)
	return &lua{s, s.checks.client.Load(), s.keys.lock("n")}
}

// luaSpaces are compared with the scripts. A reader's cool-down is left out: the store grants shared
// requests in it, which package decide does not. So is a promotion beside a replacement: the scripts
// forget the intent of a reader that is replaced.
var luaSpaces = []store.Space{
	{Name: "exclusive", Tokens: 2, Flights: 1, Unit: time.Minute, TTL: 2 * time.Minute, Keep: time.Minute, Millis: true,
		Verbs: []store.Verb{store.Acquire, store.Extend, store.Release, store.ReleaseKeep, store.Break}, Late: []store.Verb{store.Acquire, store.Release, store.Break}},
	{Name: "readers", Tokens: 3, Unit: 2 * time.Second, TTL: 4 * time.Second, Millis: true,
		Verbs: []store.Verb{store.Acquire, store.Share, store.Extend, store.Promote, store.Demote, store.Release, store.Break}},
	{Name: "replaced", Tokens: 3, Unit: time.Minute, TTL: time.Minute, Millis: true,
		Verbs: []store.Verb{store.Acquire, store.Share, store.AcquireAbove, store.ShareAbove, store.Replace, store.Raise, store.Extend, store.Release}},
}

// TestScriptsDecideAlike makes the steps of the explorer on the scripts, too, and compares the answers
// and the states after them with those of package decide. In tier 2 it draws more states.
func TestScriptsDecideAlike(t *testing.T) {
	t.Parallel()
	x := twinOfDecide(t, nil)
	width, most := 20, 3000
	if server.IsThorough() {
		width, most = 300, 40_000
	}
	for _, sp := range luaSpaces {
		t.Run(sp.Name, func(t *testing.T) {
			began := time.Now()
			c, err := sp.Compare(t.Context(), x, width, most, 20261128)
			t.Logf("%d states, %d transitions, complete %v; %d times the scripts cannot tell why a hold is gone, %d times they refuse a released token for longer; %.1f s",
				c.States, c.Transitions, c.Complete, c.Unsure, c.Refused, time.Since(began).Seconds())
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// plants are bugs in the scripts. The comparison finds each of them.
var plants = []plant{
	{"exclusive", "acquire", "if redis.call('ZSCORE', X, token) then return { 'L' } end", ""},                                              // a released token is granted
	{"readers", "queue", "if shared then return writing() or intent() or drains() end", "if shared then return writing() or drains() end"}, // an intent keeps nobody out
	{"replaced", "prelude", "note.fence <= above", "note.fence < above"},                                                                   // a fence is not above FenceAbove
	{"exclusive", "release", "local til = cool > 0 and ms + cool or 0", "local til = cool > 0 and ms + cool - 1 or 0"},                     // a cool-down is 1 ms short
	{"readers", "convert", "  r.fence = newFence(false, above)\n", ""},                                                                     // a promotion keeps the fence
}

func TestPlantedScriptsDiffer(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		in := slices.IndexFunc(luaSpaces, func(sp store.Space) bool { return sp.Name == p.space })
		c, err := luaSpaces[in].Compare(t.Context(), twinOfDecide(t, &p), 20, 3000, 20261128)
		if err == nil {
			t.Errorf("nothing differs with %q in %s.lua", p.new, p.file)
		}
		t.Logf("%s.lua, %d transitions: %v", p.file, c.Transitions, err)
	}
}
