-- Returns {lifetime in ms, fields}, or nil if there is no session.
-- KEYS: 1 session
local fields = redis.call('HGETALL', KEYS[1])
if #fields == 0 then return false end
return {redis.call('PTTL', KEYS[1]), fields}
