-- Makes an exclusive reservation a hold.
-- KEYS: 1 name 2 note
-- ARGV: 1 length of the token (3 digits) and token 2 ttl 3 ttl + KEEP 4 holder
-- Answers the fence, or 0: ask acquire.lua.
local call, K, a = redis.call, KEYS[1], ARGV[1]
local v = call('GET', KEYS[2])
if not v or string.sub(v, 18, 18 + #a) ~= a .. 'r' then return 0 end
local token = string.sub(a, 4)
local e = redis.pcall('ZSCORE', K, token)
local t = call('TIME')
local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
local f = tonumber(string.sub(v, 2, 17))
if type(e) ~= 'string' or tonumber(e) <= ms or f >= ms * 1000 + 1000 then return 0 end
local til = string.format('%.0f', math.max(tonumber(e), ms + ARGV[2]))
call('PEXPIREAT', K, til) -- first: a server without memory refuses a script that begins with ZADD
call('ZADD', K, til, token, til, '__write__')
call('SET', KEYS[2], string.sub(v, 1, 17) .. a .. 'h0000000000000' .. ms .. ARGV[4], 'PX', ARGV[3])
return f
