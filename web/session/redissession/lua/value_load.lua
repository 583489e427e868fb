-- Returns {time in µs, version or nil, value or nil}.
-- KEYS: 1 value  2 version
local t = redis.call('TIME')
return {t[1] * 1000000 + t[2], redis.call('GET', KEYS[2]), redis.call('GET', KEYS[1])}
