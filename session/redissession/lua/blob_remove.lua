-- Deletes the value. With a condition, deletes it only if it is still the old value.
-- KEYS: 1 value
-- ARGV: 1 condition, 1 or 0  2 old value
if ARGV[1] == '1' and redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
return redis.call('UNLINK', KEYS[1])
