-- Returns {lifetime in ms, value}, or nil if there is no value.
-- KEYS: 1 value
local v = redis.call('GET', KEYS[1])
if not v then return false end
return {redis.call('PTTL', KEYS[1]), v}
