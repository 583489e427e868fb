-- Deletes a session. If it was a tombstone, the script returns where the tombstone pointed to, else
-- nil. A value that is no session is another program's: the script does not delete it, and returns
-- an error.
-- KEYS: 1 session
local now = redis.call('HMGET', KEYS[1], 'm', 'v', 'f')
if not (now[1] or now[2] or now[3]) then
  if redis.call('EXISTS', KEYS[1]) == 1 then return redis.error_reply('WRONGTYPE no session') end
  return false
end
redis.call('UNLINK', KEYS[1])
return now[1]
