package fence

import _ "embed"

// RedisHash returns a Lua script for Redis 4 and later, and Valkey, which sets
// fields of a hash unless a greater fence was there before, in one step. The
// fence is a field of the same hash, named "fence".
//
//	KEYS[1]  the hash
//	ARGV     the fence, then field, value, field, value, …
//
// It returns the greatest fence as a string: the caller's own if the fields
// were set, a greater one if nothing was done: see [RedisReply].
func RedisHash() string { return redisHash }

//go:embed hash.lua
var redisHash string

// RedisReply checks the reply to RedisHash that was sent with fence. It returns nil if the fields
// were set, and a *StaleError if they were not.
func RedisReply(fence uint64, reply string) error {
	seen, err := parse(reply)
	if err != nil {
		return err
	}
	if seen > fence {
		return &StaleError{Fence: fence, Seen: seen}
	}
	return nil
}
