package redisstore

import (
	"context"
	"crypto/sha1" // the server identifies a script by the hash of its text
	"embed"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

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
	fastAcquire, fastRelease, fastExtend *script
	fastClaim, join, pass, swap          *script
	acquire, extend, release, wait       *script
	convert, raise, break_, inspect      *script
	identify, record, records            *script
}

func newScripts(layout string) *scripts {
	full := func(name string) *script { return newScript("prelude", layout, "publish", "queue", name) }
	return &scripts{
		fastAcquire: newScript("fast_acquire_" + layout),
		fastRelease: newScript("fast_release_" + layout),
		fastExtend:  newScript("fast_extend_" + layout),
		fastClaim:   newScript("fast_claim_" + layout),
		join:        newScript("slot_begin", "fast_acquire_"+layout, "join"),
		identify:    newScript("identify"),
		record:      newScript("record"),
		records:     newScript("records"),
		pass:        newScript("handover", "key_"+layout, "publish", "pass"),
		swap:        newScript("handover", "key_"+layout, "publish", "swap", "pass"),
		acquire:     full("acquire"), extend: full("extend"), release: full("release"), wait: full("wait"),
		convert: full("convert"), raise: full("raise"), break_: full("break"), inspect: full("inspect"),
	}
}

// bothScripts makes the scripts of a layout when they are first needed. So programs that link this
// package without using it start faster.
var bothScripts = map[string]func() *scripts{
	"set":    sync.OnceValue(func() *scripts { return newScripts("set") }),
	"string": sync.OnceValue(func() *scripts { return newScripts("string") }),
}

// bothSlotScripts has the script that takes a permit: for each layout, and whether that is the one
// with strings.
var bothSlotScripts = map[bool]func() *script{
	false: sync.OnceValue(func() *script { return newScript("slot_begin", "fast_acquire_set", "slot_acquire") }),
	true:  sync.OnceValue(func() *script { return newScript("slot_begin", "fast_acquire_string", "slot_acquire") }),
}

// call runs a script with two keys.
func (sc *script) call(ctx context.Context, c rueidis.CoreClient, key, note string, args ...string) rueidis.RedisResult {
	return sc.do(ctx, c, []string{key, note}, args)
}

// do runs a script with any number of keys, which must all be in one slot. The slices keys and args
// do not escape to the heap.
func (sc *script) do(ctx context.Context, c rueidis.CoreClient, keys, args []string) rueidis.RedisResult {
	resp := c.Do(ctx, sc.command(c, keys, args))
	if forgotten(resp) {
		resp = c.Do(ctx, c.B().Arbitrary("EVAL", sc.text, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build())
	}
	return resp
}

func (sc *script) command(c rueidis.CoreClient, keys, args []string) rueidis.Completed {
	return c.B().Arbitrary("EVALSHA", sc.sha, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
}

func forgotten(resp rueidis.RedisResult) bool {
	err := resp.Error()
	if err == nil {
		return false
	}
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.IsNoScript()
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
