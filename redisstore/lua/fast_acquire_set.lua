-- The exclusive hold of a name that nobody has and nobody waits for.
-- KEYS: 1 name 2 note   ARGV: 1 token 2 ttl 3 above 4 KEEP 5 end of the note
-- Answers the fence, {note, end, now} of the holder in the way, or 0: ask acquire.lua.
local v = redis.call('GET', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 1 then
  if not v or #v < 48 then return 0 end
  local n = tonumber(string.sub(v, 31, 33))
  local token = string.sub(v, 34, 33 + n)
  if token == ARGV[1] then return 0 end
  local z = redis.pcall('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if #z ~= 4 or (z[1] ~= '__write__' or z[3] ~= token) and (z[3] ~= '__write__' or z[1] ~= token) then return 0 end
  local t = redis.call('TIME')
  local ms = math.floor(t[1] * 1000 + t[2] / 1000)
  if tonumber(z[2]) <= ms or tonumber(z[4]) <= ms then return 0 end
  return { v, z[2], string.format('%.0f', ms) }
end
local f = 0
if v then
  if string.byte(v) == 33 then return 0 end -- !
  f = tonumber(string.sub(v, 2, 17))
end
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local ms = math.floor(us / 1000)
local til = ms + ARGV[2]
local stays = til + 60000
if ARGV[4] == '0' then
  f = 0
else
  f = math.max(f + 1, us, ARGV[3] + 1)
  stays = math.max(math.ceil(f / 1000), stays) + ARGV[4]
end
redis.call('SET', KEYS[2], string.format('-%016.0f%013.0f', f, ms) .. ARGV[5], 'PXAT', stays)
redis.call('ZADD', KEYS[1], til, ARGV[1], til, '__write__')
redis.call('PEXPIREAT', KEYS[1], til)
return f == 0 and 1 or f
