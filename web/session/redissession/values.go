package redissession

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/web/stampede"
	"github.com/redis/rueidis"
)

var (
	valueLoad    = script("value_load")
	valueStore   = script("value_store")
	valueDiscard = script("value_discard")
)

// versionKeep is how long Redis remembers the version of a key after a Discard. If a worker began
// before the Discard, its value is outdated. Store then finds another version and refuses the
// value. A worker that runs for longer than versionKeep could still store an outdated value.
const versionKeep = 24 * time.Hour

// Values keeps the values of a stampede.Cache. The server's clock gives their age. After a Discard,
// the server keeps about 150 bytes for the key, for a day.
func (r *Redis) Values() stampede.Values { return &values{r} }

type values struct{ *Redis }

// keys returns the two keys in Redis: one for the value, and one for the version, which is kept
// longer than the value. Both have the same hash tag, whatever key the caller chose.
func (v *values) keys(key string) []string {
	sum := sha256.Sum256([]byte(key))
	tag := "{" + base64.RawURLEncoding.EncodeToString(sum[:9]) + "}"
	return []string{v.prefix + "value:" + tag + key, v.prefix + "version:" + tag + key}
}

func (v *values) ask(ctx context.Context, s *rueidis.Lua, key string, args ...string) rueidis.RedisResult {
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return v.run(ctx, s, v.keys(key), args)
}

func failedValue(what string, err error) error {
	if err == nil {
		return nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok && strings.Contains(reply.Error(), "WRONGTYPE") {
		return fmt.Errorf("%w, and padlock leaves it alone: use another Prefix, or remove it by hand", errValue)
	}
	return fmt.Errorf("redissession: %s: %w", what, public(err))
}

var errValue = errors.New("redissession: the value of the key was not written by this package")

// Load implements stampede.Values.
func (v *values) Load(ctx context.Context, key string) (stampede.Entry, error) {
	reply, err := v.repeatable(ctx, valueLoad, v.keys(key)).ToArray()
	if err != nil {
		return stampede.Entry{}, failedValue("load", err)
	}
	if len(reply) != 3 {
		return stampede.Entry{}, errValue
	}
	now, err := reply[0].AsInt64()
	if err != nil {
		return stampede.Entry{}, errValue
	}
	version, err := reply[1].AsUint64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return stampede.Entry{}, errValue
	}
	data, err := reply[2].ToString()
	if err != nil {
		return stampede.Entry{Version: version}, ignoreMissing(err)
	}
	return parseEntry(now, version, data)
}

// ignoreMissing returns nil if err is the reply that there is no value, and errValue for any other
// error.
func ignoreMissing(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return errValue
}

// parseEntry reads a value that Store wrote. It returns an Entry without a Value in two cases. If
// the value is older than its Keep, the server may still have it for a moment, but it is no longer
// used. If the value has a newer format, this version cannot read it. In both cases the caller
// makes the value anew.
func parseEntry(now int64, version uint64, data string) (stampede.Entry, error) {
	head, value, ok := strings.Cut(data, "\n")
	var fence uint64
	var stored int64
	var fresh, keep, took time.Duration
	if n, err := fmt.Sscan(head, &fence, &stored, (*int64)(&fresh), (*int64)(&keep), (*int64)(&took)); n != 5 || err != nil || !ok {
		return stampede.Entry{Version: version}, nil
	}
	age := max(0, time.Duration(now-stored)*time.Microsecond)
	if age >= keep {
		return stampede.Entry{Version: version}, nil
	}
	return stampede.Entry{Value: []byte(value), Fence: fence, Version: version, Age: age, Fresh: fresh, Keep: keep, Took: took}, nil
}

// Store implements stampede.Values.
func (v *values) Store(ctx context.Context, key string, e stampede.Entry) (bool, error) {
	rest := fmt.Sprintf("%d %d %d\n", int64(e.Fresh), int64(e.Keep), int64(e.Took)) + string(e.Value)
	kept, err := v.ask(ctx, valueStore, key, strconv.FormatUint(e.Version, 10), strconv.FormatUint(e.Fence, 10), millis(e.Keep), rest).AsInt64()
	return kept == 1, failedValue("store", err)
}

// Discard implements stampede.Values.
func (v *values) Discard(ctx context.Context, key string) error {
	return failedValue("discard", v.ask(ctx, valueDiscard, key, millis(versionKeep)).Error())
}
