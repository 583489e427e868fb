-- Sets fields of the hash KEYS[1]. ARGV[1] is the caller's fence, and the other arguments are
-- pairs: a field, then its value. If the hash has a greater fence in its field "fence", nothing is
-- set. Returns the greatest fence as a string of decimal digits. string.format makes the string,
-- because Lua's own conversion keeps only 14 digits.
local mine = tonumber(ARGV[1])
if not (mine and mine >= 1 and mine < 9007199254740992 and string.format('%.0f', mine) == ARGV[1]) then
  return redis.error_reply('ERR fence is malformed')
end
if #ARGV % 2 == 0 then
  return redis.error_reply('ERR the last field has no value')
end
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if seen > mine then
  return string.format('%.0f', seen)
end
for i = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return ARGV[1]
