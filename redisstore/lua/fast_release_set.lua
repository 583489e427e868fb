-- Ends the exclusive hold of a name that nobody waits for.
-- KEYS: 1 name 2 note   ARGV: 1 length of the token (3 digits) and token 2 ALONE
-- Answers 1, or 0: ask release.lua.
local v = redis.call('GET', KEYS[2])
local a = ARGV[1]
if not v or string.byte(v) ~= 45 or string.sub(v, 31, 30 + #a) ~= a then return 0 end -- 45: -
if redis.pcall('ZREM', KEYS[1], string.sub(a, 4)) ~= 1 then return 0 end
redis.call('ZREM', KEYS[1], '__write__')
if ARGV[2] == '1' then redis.call('SET', KEYS[2], string.sub(v, 1, 17), 'KEEPTTL') end
return 1
