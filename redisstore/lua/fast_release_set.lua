-- Ends the exclusive hold of a name that nobody waits for.
-- KEYS: 1 name 2 note   ARGV: 1 length of the token (3 digits) and token 2 ALONE
-- Answers 1, 2: somebody may wait, or 0: ask release.lua.
local call, K, F, a = redis.call, KEYS[1], KEYS[2], ARGV[1]
local v = call('GET', F)
if not v or string.sub(v, 18, 17 + #a) ~= a then return 0 end
if string.byte(v) ~= 45 then return 2 end -- 45: -
if redis.pcall('ZREM', K, string.sub(a, 4)) ~= 1 then return 0 end
call('ZREM', K, '__write__')
if ARGV[2] then call('SET', F, string.sub(v, 1, 17), 'KEEPTTL') end
return 1
