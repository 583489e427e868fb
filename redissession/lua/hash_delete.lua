-- Returns where a tombstone pointed to. A value that is no hash is deleted too.
-- KEYS: 1 session
local moved = redis.pcall('HGET', KEYS[1], 'm')
redis.call('UNLINK', KEYS[1])
return type(moved) == 'string' and moved
