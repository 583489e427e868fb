-- Makes one commit. A session is a hash with these fields:
--   v     the version
--   d     the end of the session's lifetime, in ms since 1970
--   m     where the session has moved
--   f     the number of the format; format 1, which this script writes, has no such field
--   :KEY  the value of KEY
-- A newer padlock writes hashes with the field f. This script does not change them.
-- KEYS: 1 session
-- ARGV: 1 create  2 new version  3 version that the session must have, or empty  4 ttl in ms, or 0
--       5 end of the lifetime  6 move  7 number of conditions  8 number of ops
--       9 limit of the bytes of all keys and values, or 0
--       then for each condition: key, absent, value
--       then for each op: kind, key, value or delta
local K, call = KEYS[1], redis.call
local now = call('HMGET', K, 'v', 'm', 'f')
local create = ARGV[1] == '1'
if create then
  if call('EXISTS', K) == 1 then return {'exists'} end
elseif not now[1] then
  return {'none'}
elseif now[3] then
  return {'newer'}
elseif now[2] then
  return {'moved', now[2]}
elseif ARGV[3] ~= '' and ARGV[3] ~= now[1] then
  return {'conflict'}
end

local i, changed = 10, {'conflict'}
for _ = 1, tonumber(ARGV[7]) do
  local v = call('HGET', K, ':' .. ARGV[i])
  if v ~= (ARGV[i + 1] == '0' and ARGV[i + 2]) then changed[#changed + 1] = ARGV[i] end
  i = i + 3
end
if changed[2] then return changed end

-- The server does the additions, since a number in Lua has 53 bits only. The server may refuse an
-- addition when earlier ops of this commit are already done. Then the function undo reverts these
-- ops.
local before = {}
local function undo()
  if create then return call('DEL', K) end
  for f, v in pairs(before) do
    if v then call('HSET', K, f, v) else call('HDEL', K, f) end
  end
end
local out, grown = {'ok'}, 0
local function count(f, was, now)
  local size = #f - 1 -- without the colon
  if was then grown = grown - size - #was end
  if now then grown = grown + size + #now end
end
if create then call('HSET', K, 'v', ARGV[2]) end
for _ = 1, tonumber(ARGV[8]) do
  local kind, f, arg = ARGV[i], ':' .. ARGV[i + 1], ARGV[i + 2]
  local was, res = call('HGET', K, f), false
  if before[f] == nil then before[f] = was end
  if kind == 'put' then
    call('HSET', K, f, arg)
    count(f, was, arg)
  elseif kind == 'incr' then
    local sum = redis.pcall('HINCRBY', K, f, arg)
    if type(sum) == 'table' then
      undo()
      if string.find(sum.err, 'integer') or string.find(sum.err, 'overflow') then return {'nan'} end
      return sum
    end
    res = call('HGET', K, f)
    count(f, was, res)
  else
    if kind == 'take' then res = was end
    call('HDEL', K, f)
    count(f, was, false)
  end
  out[#out + 1] = res
  i = i + 3
end

-- A session that is larger than the limit can still be made smaller.
local most = tonumber(ARGV[9])
if most > 0 and grown > 0 then
  local all, size = call('HGETALL', K), 0
  for n = 1, #all, 2 do
    if string.sub(all[n], 1, 1) == ':' then size = size + #all[n] - 1 + #all[n + 1] end
  end
  if size > most then
    undo()
    return {'large'}
  end
end
call('HSET', K, 'v', ARGV[2])
if create and ARGV[5] ~= '' then call('HSET', K, 'd', ARGV[5]) end
if ARGV[6] ~= '' then call('HSET', K, 'm', ARGV[6]) end
if ARGV[4] == '0' then call('PERSIST', K) else call('PEXPIRE', K, ARGV[4]) end
return out
