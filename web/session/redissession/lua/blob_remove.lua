-- Deletes the value. With a condition, deletes it only if it is still the old value. A value that is
-- not a string is another program's, and the command GET fails.
-- KEYS: 1 value
-- ARGV: 1 condition, 1 or 0  2 old value
local now = redis.call('GET', KEYS[1])
if ARGV[1] == '1' and now ~= ARGV[2] then return 0 end
return redis.call('UNLINK', KEYS[1])
