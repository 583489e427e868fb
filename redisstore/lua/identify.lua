-- Returns the id of this place, and writes one first if there is none.
-- KEYS: 1 the key of the id
-- ARGV: 1 a new id
-- SET with NX and GET in one command needs Redis 7; padlock supports 6.2.
local id = redis.call('GET', KEYS[1])
if not id then
  id = ARGV[1]
  redis.call('SET', KEYS[1], id)
end
return id
