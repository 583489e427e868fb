-- Sets the lifetime of a session. If the hash is a tombstone, or is in a newer format, or is no
-- session, the script does nothing.
-- KEYS: 1 session
-- ARGV: 1 ttl in ms, or 0
local now = redis.call('HMGET', KEYS[1], 'm', 'f')
if now[1] or now[2] or redis.call('HEXISTS', KEYS[1], 'v') == 0 then return 0 end
if ARGV[1] == '0' then return redis.call('PERSIST', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
