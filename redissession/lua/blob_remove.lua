-- KEYS: 1 value
-- ARGV: 1 whether it must be something 2 what
if ARGV[1] == '1' and redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
return redis.call('UNLINK', KEYS[1])
