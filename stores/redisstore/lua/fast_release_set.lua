-- Ends the exclusive hold of a name that nobody waits for.
-- KEYS: 1 name  2 note
-- ARGV:
--   1 the token, with its length before it, as in the note
--   2 "1" if the store has the option OnlyPadlock (ALONE); otherwise this argument is absent
-- Returns 1 if the hold has ended, 2 if pass.lua must run because there may be waiters, or 0 if
-- release.lua must run.
local call, K, F, a = redis.call, KEYS[1], KEYS[2], ARGV[1]
local v = call('GET', F)
if not v or string.sub(v, NOTE_LENGTH, NOTE_FENCE_END + #a) ~= a then return 0 end
if string.byte(v) ~= BYTE_SIMPLE then return 2 end
if redis.pcall('ZREM', K, string.sub(a, COUNTED_TOKEN)) ~= 1 then return 0 end
call('ZREM', K, '__write__')
if ARGV[2] then call('SET', F, string.sub(v, 1, NOTE_FENCE_END), 'KEEPTTL') end
return 1
