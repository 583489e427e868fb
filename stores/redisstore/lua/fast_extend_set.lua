-- Extends the lease of an exclusive hold. This file is the body of onLock in extend_batch.lua.
-- KEYS: 1 name  2 note
-- ARGV:
--   1 the token, with its length before it, as in the note
--   2 ttl
--   3 KEEP
--   4 the time, as a number of ms
--   5 time + ttl, as a text
--   6 time + ttl + KEEP, as a text
-- Returns {fence, ms left}, or 0 if extend.lua must run.
local v = redis.call('GET', KEYS[2])
local a = ARGV[1]
if not v or string.byte(v) > BYTE_LAST_FLAG then return 0 end
if string.sub(v, NOTE_LENGTH, NOTE_FENCE_END + #a) ~= a then return 0 end
local token = string.sub(a, COUNTED_TOKEN)
-- PHP may have turned the hold into a shared one, or an application may have added a member.
local z = redis.pcall('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
local e
if z[1] == token then e = z[3] == '__write__' and z[2] else e = z[1] == '__write__' and z[3] == token and z[4] end
if #z ~= 4 or not e then return 0 end
local ms = ARGV[4]
local til = ms + ARGV[2]
e = tonumber(e)
if e <= ms then return 0 end
local f = tonumber(string.sub(v, NOTE_FENCE, NOTE_FENCE_END))
if til > e then
  e = til
  local at, ahead = ARGV[5], math.ceil(f / 1000)
  redis.call('PEXPIREAT', KEYS[1], at) -- first: without memory, the server refuses ZADD as the first write
  redis.call('ZADD', KEYS[1], 'XX', at, token, at, '__write__')
  redis.call('PEXPIREAT', KEYS[2], ahead > til and ahead + ARGV[3] or ARGV[6])
end
return { f, e - ms }
