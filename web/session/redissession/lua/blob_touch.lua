-- Sets the lifetime of a value. A tombstone keeps its own lifetime.
-- KEYS: 1 value
-- ARGV: 1 ttl in ms, or 0  2 the text that every tombstone begins with
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[2] - 1) == ARGV[2] then return 0 end
if ARGV[1] == '0' then return redis.call('PERSIST', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
