-- Ends the hold of a name that nobody waits for.
-- KEYS: 1 name 2 note   ARGV: 1 token 2 ALONE
-- Answers 1, 2: somebody may wait, or 0: ask release.lua.
local call = redis.call
local v = call('MGET', KEYS[1], KEYS[2])
if v[1] ~= ARGV[1] then return 0 end
v = v[2]
if v then
  if string.byte(v) == 33 then return 2 end -- !
end
call('DEL', KEYS[1]) -- first: a server without memory refuses a script that begins with SET
if v and ARGV[2] then call('SET', KEYS[2], string.sub(v, 1, 17), 'KEEPTTL') end
return 1
