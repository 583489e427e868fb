-- Writes if the value is still what it was; else returns what it is.
-- KEYS: 1 value
-- ARGV: 1 whether there was one 2 what it was 3 new 4 ttl
local K, call = KEYS[1], redis.call
local now = call('GET', K)
if now ~= (ARGV[1] == '1' and ARGV[2]) then return {0, call('PTTL', K), now} end
if ARGV[4] == '0' then call('SET', K, ARGV[3]) else call('SET', K, ARGV[3], 'PX', ARGV[4]) end
return {1}
