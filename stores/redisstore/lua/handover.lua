-- The scripts that end a hold and hand the name over begin with this file, or with a fast release
-- script and this file. key_set.lua or key_string.lua comes next, and then publish.lua.
--
-- KEYS: 1 name  2 note  3 records  4 queue  5 waiters without a place  6 released tokens
--       (5 and 6 for swap.lua only)
-- ARGV:
--   1 the token of the hold that ends, with its length before it
--   2 MS_RESERVE + KEEP
--   3 how to send messages; see messagesToAll in serverinfo.go
--   4 "1" if the store has the option OnlyPadlock (ALONE), else "0"
-- If another caller in the same process wants the name, there are four more:
--   5 the caller's token, with its length before it
--   6 ttl
--   7 ttl + KEEP
--   8 holder
local call, K, F, H, Q, a, counts = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[3]
local both = call('MGET', F, K) -- nil for K if the key is a sorted set
local v = both[1]

-- The script ends a hold only if the note describes the hold. Instead of a hold, the note may
-- describe a reservation. A waiter may release a reservation that it has not claimed.
if not v or string.byte(v) > BYTE_LAST_FLAG then return 0 end
if string.sub(v, NOTE_LENGTH, NOTE_FENCE_END + #a) ~= a then return 0 end
local state = string.sub(v, NOTE_LENGTH + #a, NOTE_LENGTH + #a + NOTE_TIME)
if state ~= NOTE_HELD_0 and state ~= NOTE_RESERVED_0 and string.byte(state) ~= BYTE_HELD_NOW then return 0 end

local token, last = string.sub(a, COUNTED_TOKEN), string.sub(v, NOTE_FENCE, NOTE_FENCE_END)
local t = call('TIME')
local f = t[1] .. string.sub('00000' .. t[2], -6) -- always 16 digits, to compare as strings
local us = tonumber(f)
local ms = math.floor(us / 1000)
