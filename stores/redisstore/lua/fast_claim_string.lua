-- Turns a reservation into a hold.
-- KEYS: 1 name  2 note
-- ARGV:
--   1 the token, with its length before it, as in the note
--   2 ttl
--   3 ttl + KEEP
--   4 holder
-- Returns the fence, or 0 if acquire.lua must run.
local call, K, a = redis.call, KEYS[1], ARGV[1]
local both = call('MGET', K, KEYS[2])
local v = both[2]
if both[1] ~= string.sub(a, COUNTED_TOKEN) or not v or string.byte(v) > BYTE_LAST_FLAG then return 0 end
if string.sub(v, NOTE_LENGTH, NOTE_LENGTH + #a) ~= a .. NOTE_RESERVED then return 0 end
local t = call('TIME')
local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
local f = tonumber(string.sub(v, NOTE_FENCE, NOTE_FENCE_END))
local left = call('PTTL', K)
if left <= 0 or f >= ms * 1000 + 1000 then return 0 end
call('PEXPIRE', K, math.max(left, tonumber(ARGV[2])))
call('SET', KEYS[2], string.sub(v, 1, NOTE_FENCE_END) .. a .. NOTE_HELD_0 .. ms .. ARGV[4], 'PX', ARGV[3])
return f
