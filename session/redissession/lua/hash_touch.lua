-- Sets the lifetime of a session. If the hash is a tombstone, or is in a newer format, the script
-- does nothing.
-- KEYS: 1 session
-- ARGV: 1 ttl in ms, or 0
if redis.call('HEXISTS', KEYS[1], 'm') == 1 or redis.call('HEXISTS', KEYS[1], 'f') == 1 then return 0 end
if ARGV[1] == '0' then return redis.call('PERSIST', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
