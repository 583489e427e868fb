-- Extends a lease.
-- KEYS: 1 name  2 note
-- ARGV: 1 the token, with its length before it, as in the note  2 ttl  3 KEEP
-- With extend_batch.lua, there are three more:
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
    local ms, ahead = ARGV[4], math.ceil(f / 1000)
    if not ms then
      local t = redis.call('TIME')
      ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
    end
    local til = ms + ttl
    redis.call('PEXPIREAT', KEYS[2], ahead > til and ahead + ARGV[3] or ARGV[6] or til + ARGV[3])
  end
end
return { f, left }
