-- Extends a lease. This file is the body of onLock in extend_batch.lua.
-- KEYS: 1 name  2 note
-- ARGV: 1 the token, with its length before it, as in the note  2 ttl  3 KEEP
--   4 the time, as a number of ms
--   5 time + ttl, as a text
--   6 time + ttl + KEEP, as a text
-- Returns {fence, ms left}, or 0 if extend.lua must run.
local v = redis.call('MGET', KEYS[1], KEYS[2])
if v[1] ~= string.sub(ARGV[1], COUNTED_TOKEN) then return 0 end
local note = v[2]
if note and string.byte(note) > BYTE_LAST_FLAG then return 0 end
local left, ttl = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
if left <= 0 then return 0 end
local f = note and tonumber(string.sub(note, NOTE_FENCE, NOTE_FENCE_END)) or 0
if left < ttl then
  left = ttl
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  if note then
    local ahead = math.ceil(f / 1000)
    redis.call('PEXPIREAT', KEYS[2], ahead > ARGV[4] + ttl and ahead + ARGV[3] or ARGV[6])
  end
end
return { f, left }
