-- The hold of a name that nobody has and nobody waits for, with a fence.
-- KEYS: 1 name 2 note   ARGV: 1 token 2 ttl 3 above 4 KEEP 5 end of the note
-- Answers the fence, or 0: ask acquire.lua.
local v = redis.call('GET', KEYS[2])
local f = 0
if v then
  if string.byte(v) == 33 then return 0 end -- !
  f = tonumber(string.sub(v, 2, 17))
end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local ms = math.floor(us / 1000)
f = math.max(f + 1, us, ARGV[3] + 1)
redis.call('SET', KEYS[2], string.format('-%016.0f%013.0f', f, ms) .. ARGV[5],
  'PXAT', math.max(math.ceil(f / 1000), ms + ARGV[2] + 60000) + ARGV[4])
return f
