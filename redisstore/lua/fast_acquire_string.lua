-- The hold of a name that nobody has and nobody waits for, with a fence.
-- KEYS: 1 name 2 note
-- ARGV: 1 length of the token (3 digits) and token 2 ttl 3 ttl + KEEP 4 end of the note
-- Answers the fence, {note, end, now} of the holder in the way, or 0: ask acquire.lua.
local call, K, F, a = redis.call, KEYS[1], KEYS[2], ARGV[1]
if not call('SET', K, string.sub(a, 4), 'NX', 'PX', ARGV[2]) then
  local v = call('GET', F)
  if not v or #v < 22 then return 0 end
  local token = string.sub(v, 21, 20 + tonumber(string.sub(v, 18, 20)))
  local left = call('PTTL', K)
  if left <= 0 or token == string.sub(a, 4) or redis.pcall('GET', K) ~= token then return 0 end
  local t = call('TIME')
  local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
  return { v, string.format('%.0f', ms + left), string.format('%.0f', ms) }
end
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
