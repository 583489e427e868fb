package fence

import _ "embed"

// RedisHash is a Lua script for Redis 4 and later, and Valkey, which sets
// fields of a hash unless a greater fence was there before, in one step. The
// fence is a field of the same hash, named "fence".
//
//	KEYS[1]  the hash
//	ARGV     the fence, then field, value, field, value, …
//
// It returns the greatest fence as a string: the caller's own if the fields
// were set, a greater one if nothing was done, see [RedisReply].
//
//go:embed hash.lua
var RedisHash string

// RedisReply tells what the reply to RedisHash, sent with fence, says: nil, or
// a *StaleError.
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
