-- Turns an exclusive reservation into a hold.
-- KEYS: 1 name  2 note
-- ARGV:
--   1 the token, with its length before it, as in the note
--   2 ttl
--   3 ttl + KEEP
--   4 holder
-- Returns the fence, or 0 if acquire.lua must run.
local call, K, a = redis.call, KEYS[1], ARGV[1]
local v = call('GET', KEYS[2])
if not v or string.byte(v) > BYTE_LAST_FLAG then return 0 end
if string.sub(v, NOTE_LENGTH, NOTE_LENGTH + #a) ~= a .. NOTE_RESERVED then return 0 end
local token = string.sub(a, COUNTED_TOKEN)
local e = redis.pcall('ZSCORE', K, token)
local t = call('TIME')
local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
local f = tonumber(string.sub(v, NOTE_FENCE, NOTE_FENCE_END))
if type(e) ~= 'string' or tonumber(e) <= ms or f >= ms * 1000 + 1000 then return 0 end
local til = string.format('%.0f', math.max(tonumber(e), ms + ARGV[2]))
call('PEXPIREAT', K, til) -- first: without memory, the server refuses ZADD as the first write
call('ZADD', K, til, token, til, '__write__')
call('SET', KEYS[2], string.sub(v, 1, NOTE_FENCE_END) .. a .. NOTE_HELD_0 .. ms .. ARGV[4], 'PX', ARGV[3])
return f
