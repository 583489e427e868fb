-- Deletes a session, or a value at its key that is not a hash. Returns where a tombstone pointed
-- to, or nil.
-- KEYS: 1 session
local moved = redis.pcall('HGET', KEYS[1], 'm')
redis.call('UNLINK', KEYS[1])
return type(moved) == 'string' and moved
