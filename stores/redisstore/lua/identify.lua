-- Returns the id of the store. If the store has no id yet, stores ARGV 1 as its id first.
-- KEYS: 1 the key of the id
-- ARGV: 1 a new id
-- The script uses two commands, because SET with NX and GET needs Redis 7 and padlock supports 6.2.
local id = redis.call('GET', KEYS[1])
if not id then
  id = ARGV[1]
  redis.call('SET', KEYS[1], id)
end
return id
