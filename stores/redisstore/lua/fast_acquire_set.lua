-- Takes a name that nobody holds and nobody waits for, or turns a reservation of the token into a
-- hold. The hold is exclusive.
-- KEYS: 1 name  2 note  3 queue (not for a permit, since callers wait at the gate)
-- ARGV:
--   1 the token, with its length before it, as in the note
--   2 ttl
--   3 ttl + KEEP
--   4 holder
-- Returns
--   the fence         if it has taken the name
--   {note, end, now}  if another hold is in the way
--   0                 if acquire.lua must run; also if the token is refused, but is in the queue
local call, K, F, a = redis.call, KEYS[1], KEYS[2], ARGV[1]
local token = string.sub(a, COUNTED_TOKEN)
if call('EXISTS', K) == 1 then
  local v = call('GET', F)
  if not v or #v <= NOTE_TOKEN then return 0 end
  local n = tonumber(string.sub(v, NOTE_LENGTH, NOTE_LENGTH_END))
  if not n then return 0 end
  local holds = string.sub(v, NOTE_TOKEN, NOTE_LENGTH_END + n)
  if holds == token then
    local e = redis.pcall('ZSCORE', K, token)
    local t = call('TIME')
    local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
    local f = tonumber(string.sub(v, NOTE_FENCE, NOTE_FENCE_END))
    if string.sub(v, NOTE_TOKEN + n, NOTE_TOKEN + n) ~= NOTE_RESERVED or string.byte(v) > BYTE_LAST_FLAG
      or type(e) ~= 'string' or tonumber(e) <= ms or f >= ms * 1000 + 1000 then return 0 end
    local til = string.format('%.0f', math.max(tonumber(e), ms + ARGV[2]))
    call('PEXPIREAT', K, til) -- first: without memory, the server refuses ZADD as the first write
    call('ZADD', K, til, token, til, '__write__')
    call('SET', F, string.sub(v, 1, NOTE_LENGTH_END + n) .. NOTE_HELD_0 .. ms .. ARGV[4], 'PX', ARGV[3])
    return f
  end
  local z = redis.pcall('ZRANGE', K, 0, 2, 'WITHSCORES')
  if #z ~= 4 or (z[1] ~= '__write__' or z[3] ~= holds) and (z[3] ~= '__write__' or z[1] ~= holds) then return 0 end
  local t = call('TIME')
  local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
  if tonumber(z[2]) <= ms or tonumber(z[4]) <= ms then return 0 end
  if KEYS[3] and string.byte(v) ~= BYTE_SIMPLE and call('ZSCORE', KEYS[3], token) then return 0 end
  return { v, z[2], string.format('%.0f', ms) }
end
local t = call('TIME')
local s, u = t[1], t[2]
local f = s .. string.sub('00000' .. u, -6) -- always 16 digits, to compare as strings
local us = s * 1000000 + u
local til = string.format('%.0f', math.floor(us / 1000) + ARGV[2]) -- computed before any write
local v = call('SET', F, NOTE_SIMPLE .. f .. a .. NOTE_HELD_NOW .. ARGV[4], 'PX', ARGV[3], 'GET')
local last = v and string.sub(v, NOTE_FENCE, NOTE_FENCE_END)
if v and (string.byte(v) ~= BYTE_SIMPLE or last >= f) then
  local ms = math.ceil(math.max(tonumber(last), tonumber(f)) / 1000)
  call('SET', F, v, 'PXAT', ms + ARGV[3])
  return 0
end
call('ZADD', K, til, token, til, '__write__')
call('PEXPIREAT', K, til)
return us
