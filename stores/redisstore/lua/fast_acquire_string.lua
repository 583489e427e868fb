-- Takes a name that nobody holds and nobody waits for, or turns a reservation of the token into a
-- hold.
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
if not call('SET', K, token, 'NX', 'PX', ARGV[2]) then
  local v = call('GET', F)
  if not v or #v <= NOTE_TOKEN then return 0 end
  local n = tonumber(string.sub(v, NOTE_LENGTH, NOTE_LENGTH_END))
  local holds = n and string.sub(v, NOTE_TOKEN, NOTE_LENGTH_END + n)
  local left = call('PTTL', K)
  if not n or left <= 0 or redis.pcall('GET', K) ~= holds then return 0 end
  local t = call('TIME')
  local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
  if holds == token then
    local f = tonumber(string.sub(v, NOTE_FENCE, NOTE_FENCE_END))
    if string.sub(v, NOTE_TOKEN + n, NOTE_TOKEN + n) ~= NOTE_RESERVED or string.byte(v) > BYTE_LAST_FLAG
      or f >= ms * 1000 + 1000 then return 0 end
    call('PEXPIRE', K, math.max(left, tonumber(ARGV[2])))
    call('SET', F, string.sub(v, 1, NOTE_LENGTH_END + n) .. NOTE_HELD_0 .. ms .. ARGV[4], 'PX', ARGV[3])
    return f
  end
  if KEYS[3] and string.byte(v) ~= BYTE_SIMPLE and call('ZSCORE', KEYS[3], token) then return 0 end
  return { v, string.format('%.0f', ms + left), string.format('%.0f', ms) }
end
local t = call('TIME')
local s, u = t[1], t[2]
local f = s .. string.sub('00000' .. u, -6) -- always 16 digits, to compare as strings
local v = call('SET', F, NOTE_SIMPLE .. f .. a .. NOTE_HELD_NOW .. ARGV[4], 'PX', ARGV[3], 'GET')
local last = v and string.sub(v, NOTE_FENCE, NOTE_FENCE_END)
if v and (string.byte(v) ~= BYTE_SIMPLE or last >= f) then
  local ms = math.ceil(math.max(tonumber(last), tonumber(f)) / 1000)
  call('SET', F, v, 'PXAT', ms + ARGV[3])
  call('DEL', K)
  return 0
end
return s * 1000000 + u
