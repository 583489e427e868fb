-- Ends the hold of a name that nobody waits for.
-- KEYS: 1 name 2 note   ARGV: 1 token 2 ALONE
-- Answers 1, 2: somebody may wait, or 0: ask release.lua.
local v = redis.call('MGET', KEYS[1], KEYS[2])
if v[1] ~= ARGV[1] then return 0 end
v = v[2]
if v then
  if string.byte(v) == 33 then return 2 end -- !
  if ARGV[2] then redis.call('SET', KEYS[2], string.sub(v, 1, 17), 'KEEPTTL') end
end
return redis.call('DEL', KEYS[1])
