package fence

import _ "embed"

// RedisHash returns a Lua script for Redis 4 and later, and Valkey. In one step, the script sets
// fields of a hash unless the hash has a greater fence already. The fence is a field of the same
// hash, named "fence".
//
//	KEYS[1]  the hash
//	ARGV     the fence in decimal digits, then field, value, field, value, …
//
// The script returns the greatest fence as a string. That is the caller's own fence if the fields
// were set, and a greater one if nothing was done: see [RedisReply].
func RedisHash() string { return redisHash }

//go:embed hash.lua
var redisHash string

// RedisReply checks the reply to a RedisHash script that was sent with the given fence. It returns
// nil if the fields were set, and a *StaleError if they were not.
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
