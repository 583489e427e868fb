-- Deletes the value at a session's key, even if the value is not a hash. If the value was a
-- tombstone, the script returns where the tombstone pointed to, else nil.
-- KEYS: 1 session
local moved = redis.pcall('HGET', KEYS[1], 'm')
redis.call('UNLINK', KEYS[1])
return type(moved) == 'string' and moved
