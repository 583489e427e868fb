-- Stores a value, unless the version has changed or the present value has a greater fence.
--
-- A value begins with its fence, a space, and the time at which it was stored, in µs. If a
-- later version of padlock uses another format, the value must still begin with the fence and a
-- space. After the space there must be a word that is not a number, for example v2. The word tells
-- an older version of padlock that it cannot read the value.
--
-- If an older version finds such a value, it makes the value again, in the old format. This script
-- stores the new value only if its fence is not smaller than the fence of the present value. The
-- script can compare the two fences, because both formats begin with the fence.
-- KEYS: 1 value  2 version
-- ARGV: 1 version  2 fence  3 keep in ms  4 the rest of the value
local call = redis.call
if (call('GET', KEYS[2]) or '0') ~= ARGV[1] then return 0 end
-- Fences are compared as text, since a number in Lua has 53 bits only.
local start = call('GETRANGE', KEYS[1], 0, 20)
local kept, mine = string.match(start, '^(%d+) '), ARGV[2]
if start ~= '' and not kept then return redis.error_reply('WRONGTYPE no value of padlock') end
if kept and (#kept > #mine or #kept == #mine and kept > mine) then return 0 end
if ARGV[3] == '0' then
  call('UNLINK', KEYS[1])
  return 1
end
local t = call('TIME')
call('SET', KEYS[1], mine .. string.format(' %.0f ', t[1] * 1000000 + t[2]) .. ARGV[4], 'PX', ARGV[3])
return 1
