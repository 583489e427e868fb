-- Writes the new value if the present value is still the old one. Otherwise returns the present
-- value and its lifetime.
-- KEYS: 1 value
-- ARGV: 1 "1" if there was an old value, else "0"
--       2 old value
--       3 new value
--       4 ttl in ms, or 0
local K, call = KEYS[1], redis.call
local now = call('GET', K)
if now ~= (ARGV[1] == '1' and ARGV[2]) then return {0, call('PTTL', K), now} end
if ARGV[4] == '0' then call('SET', K, ARGV[3]) else call('SET', K, ARGV[3], 'PX', ARGV[4]) end
return {1}
