-- The hold of a name that nobody has and nobody waits for, with a fence.
-- KEYS: 1 name 2 note
-- ARGV: 1 length of the token (3 digits) and token 2 ttl 3 ttl + KEEP 4 end of the note
-- Answers the fence, or 0: ask acquire.lua.
local call, K, F, a = redis.call, KEYS[1], KEYS[2], ARGV[1]
if not call('SET', K, string.sub(a, 4), 'NX', 'PX', ARGV[2]) then return 0 end
local t = call('TIME')
local s, u = t[1], t[2]
local f = s .. string.sub('00000' .. u, -6) -- 16 digits, and so ordered as a string
local v = call('SET', F, '-' .. f .. a .. ARGV[4], 'PX', ARGV[3], 'GET')
if v and (string.byte(v) ~= 45 or string.sub(v, 2, 17) >= f) then -- 45: -
  local ms = math.ceil(math.max(tonumber(string.sub(v, 2, 17)), tonumber(f)) / 1000)
  call('SET', F, v, 'PXAT', ms + ARGV[3])
  call('DEL', K)
  return 0
end
return s * 1000000 + u
