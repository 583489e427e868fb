-- Deletes the value and raises its version. The new version is above all earlier versions, even
-- above those that are no longer kept.
-- KEYS: 1 value  2 version
-- ARGV: 1 how long the version is kept, in ms
local t = redis.call('TIME')
local version = math.max(t[1] * 1000000 + t[2], (redis.call('GET', KEYS[2]) or 0) + 1)
redis.call('SET', KEYS[2], string.format('%.0f', version), 'PX', ARGV[1])
return redis.call('UNLINK', KEYS[1])
