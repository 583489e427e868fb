-- Answers where a tombstone pointed to.
-- KEYS: 1 session
local moved = redis.call('HGET', KEYS[1], 'm')
redis.call('UNLINK', KEYS[1])
return moved
