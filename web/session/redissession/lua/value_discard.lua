-- Deletes the value and raises its version. A value that padlock did not write stays. The new version is above all earlier versions, even
-- above those that are no longer kept.
-- KEYS: 1 value  2 version
-- ARGV: 1 how long the version is kept, in ms
local start = redis.call('GETRANGE', KEYS[1], 0, 20)
if start ~= '' and not string.match(start, '^%d+ ') then return redis.error_reply('WRONGTYPE no value of padlock') end
local t = redis.call('TIME')
local version = math.max(t[1] * 1000000 + t[2], (redis.call('GET', KEYS[2]) or 0) + 1)
redis.call('SET', KEYS[2], string.format('%.0f', version), 'PX', ARGV[1])
return redis.call('UNLINK', KEYS[1])
