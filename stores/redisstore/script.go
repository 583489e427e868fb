package redisstore

import (
	"cmp"
	"context"
	"crypto/sha1" // the server identifies a script by the hash of its text
	"embed"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

//go:embed lua/*.lua
var sources embed.FS

// script is a Lua script. It is called by the hash of its text. If the server does not know the
// hash (NOSCRIPT, as after a restart), the text is sent.
type script struct{ text, sha string }

func newScript(files ...string) *script {
	var text strings.Builder
	text.WriteString(spell("-- padlock, notes of version NOTE_VERSION\n"))
	for _, f := range files {
		b, err := sources.ReadFile("lua/" + f + ".lua")
		if err != nil {
			panic(err) // the name of a file is misspelt; every test would find that
		}
		text.WriteString(spell(string(b)))
	}
	sum := sha1.Sum([]byte(text.String()))
	return &script{text.String(), hex.EncodeToString(sum[:])}
}

// scripts has the scripts of one layout.
type scripts struct {
	fastAcquire, fastRelease        *script
	fastExtend, extend              *script // of many leases
	swap                            *script
	acquire, release, wait          *script
	convert, raise, break_, inspect *script
	identify, record, records       *script
}

// newScripts makes the scripts of a layout from their files. A test makes them of changed texts.
func newScripts(layout string, newScript func(files ...string) *script) *scripts {
	full := func(name string) *script { return newScript("prelude", layout, "publish", "queue", name) }
	return &scripts{
		fastAcquire: newScript("fast_acquire_" + layout),
		fastRelease: newScript("fast_release_"+layout, "handover", "key_"+layout, "publish", "pass"),
		fastExtend:  newScript("slot_begin", "fast_extend_"+layout, "extend_batch"),
		extend:      newScript("slot_begin", "prelude", layout, "publish", "queue", "extend", "extend_rest"),
		identify:    newScript("identify"),
		record:      newScript("record"),
		records:     newScript("records"),
		swap:        newScript("handover", "key_"+layout, "publish", "swap", "pass"),
		acquire:     full("acquire"), release: full("release"), wait: full("wait"),
		convert: full("convert"), raise: full("raise"), break_: full("break"), inspect: full("inspect"),
	}
}

// bothScripts makes the scripts of a layout when they are first needed. So programs that link this
// package without using it start faster.
var bothScripts = map[string]func() *scripts{
	"set":    sync.OnceValue(func() *scripts { return newScripts("set", newScript) }),
	"string": sync.OnceValue(func() *scripts { return newScripts("string", newScript) }),
}

// bothSlotScripts has the script that takes a permit: for each layout, and whether that is the one
// with strings.
var bothSlotScripts = map[bool]func() *script{
	false: sync.OnceValue(func() *script { return newScript("slot_begin", "fast_acquire_set", "slot_acquire") }),
	true:  sync.OnceValue(func() *script { return newScript("slot_begin", "fast_acquire_string", "slot_acquire") }),
}

// do runs a script. Its keys must all be in one slot. The slices keys and args do not escape to the
// heap.
func (sc *script) do(ctx context.Context, c rueidis.CoreClient, keys, args []string) rueidis.RedisResult {
	n := strconv.Itoa(len(keys))
	resp := c.Do(ctx, c.B().Arbitrary("EVALSHA", sc.sha, n).Keys(keys...).Args(args...).Build())
	if e, ok := rueidis.IsRedisErr(resp.Error()); ok && e.IsNoScript() {
		resp = c.Do(ctx, c.B().Arbitrary("EVAL", sc.text, n).Keys(keys...).Args(args...).Build())
	}
	return resp
}

// scriptCall has the keys and arguments of one run of a script.
type scriptCall struct{ keys, args []string }

// doAll runs a script several times, and sends the requests together.
func (sc *script) doAll(ctx context.Context, c rueidis.CoreClient, calls []scriptCall) []rueidis.RedisResult {
	if len(calls) == 1 {
		return []rueidis.RedisResult{sc.do(ctx, c, calls[0].keys, calls[0].args)}
	}
	cmds := make(rueidis.Commands, len(calls))
	for i, a := range calls {
		cmds[i] = c.B().Arbitrary("EVALSHA", sc.sha, strconv.Itoa(len(a.keys))).Keys(a.keys...).Args(a.args...).Build()
	}
	all := c.DoMulti(ctx, cmds...)
	for i, resp := range all {
		if e, ok := rueidis.IsRedisErr(resp.Error()); ok && e.IsNoScript() {
			all[i] = sc.do(ctx, c, calls[i].keys, calls[i].args)
		}
	}
	return all
}

// roundTrips has the times that the last two requests of a store took. The shorter one counts, so a
// single hiccup does not make a reservation longer.
type roundTrips struct{ last, before atomic.Int64 }

func (t *roundTrips) note(d time.Duration) { t.before.Store(t.last.Swap(int64(d))) }

func (t *roundTrips) shorter() time.Duration {
	last := t.last.Load()
	return time.Duration(min(last, cmp.Or(t.before.Load(), last)))
}

// The texts of arguments.

// holderText returns h as JSON.
func holderText(h *driver.Holder) string {
	text, err := json.Marshal(h)
	if err != nil {
		return "" // cannot happen: strings and numbers can always be written
	}
	return string(text)
}

// millis rounds up, so that a lease is never shorter than the caller asked for.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

func mode(shared bool) string {
	if shared {
		return "s"
	}
	return "x"
}

func fence(f uint64) string {
	if f == 0 {
		return "0"
	}
	return strconv.FormatUint(f, 10)
}

func digit(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
