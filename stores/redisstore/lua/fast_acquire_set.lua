-- Takes a name that nobody holds and nobody waits for. The hold is exclusive.
-- KEYS: 1 name  2 note
-- ARGV:
--   1 the token, with its length before it, as in the note
--   2 ttl
--   3 ttl + KEEP
--   4 the end of the new note: the part after the token
-- Returns
--   the fence         if it has taken the name
--   {note, end, now}  if another hold is in the way
--   0                 if acquire.lua must run
local call, K, F, a = redis.call, KEYS[1], KEYS[2], ARGV[1]
if call('EXISTS', K) == 1 then
  local v = call('GET', F)
  if not v or #v <= NOTE_TOKEN then return 0 end
  local n = tonumber(string.sub(v, NOTE_LENGTH, NOTE_LENGTH_END))
  local token = n and string.sub(v, NOTE_TOKEN, NOTE_LENGTH_END + n)
  if not n or token == string.sub(a, COUNTED_TOKEN) then return 0 end
  local z = redis.pcall('ZRANGE', K, 0, 2, 'WITHSCORES')
  if #z ~= 4 or (z[1] ~= '__write__' or z[3] ~= token) and (z[3] ~= '__write__' or z[1] ~= token) then return 0 end
  local t = call('TIME')
  local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
  if tonumber(z[2]) <= ms or tonumber(z[4]) <= ms then return 0 end
  return { v, z[2], string.format('%.0f', ms) }
end
local t = call('TIME')
local s, u = t[1], t[2]
local f = s .. string.sub('00000' .. u, -6) -- always 16 digits, to compare as strings
local us = s * 1000000 + u
local til = string.format('%.0f', math.floor(us / 1000) + ARGV[2]) -- computed before any write
local v = call('SET', F, NOTE_SIMPLE .. f .. a .. ARGV[4], 'PX', ARGV[3], 'GET')
local last = v and string.sub(v, NOTE_FENCE, NOTE_FENCE_END)
if v and (string.byte(v) ~= BYTE_SIMPLE or last >= f) then
  local ms = math.ceil(math.max(tonumber(last), tonumber(f)) / 1000)
  call('SET', F, v, 'PXAT', ms + ARGV[3])
  return 0
end
call('ZADD', K, til, string.sub(a, COUNTED_TOKEN), til, '__write__')
call('PEXPIREAT', K, til)
return us
