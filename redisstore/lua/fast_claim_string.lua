-- Makes a reservation a hold.
-- KEYS: 1 name 2 note
-- ARGV: 1 length of the token (3 digits) and token 2 ttl 3 ttl + KEEP 4 holder
-- Answers the fence, or 0: ask acquire.lua.
local call, K, a = redis.call, KEYS[1], ARGV[1]
local both = call('MGET', K, KEYS[2])
local v = both[2]
if both[1] ~= string.sub(a, 4) or not v or string.sub(v, 18, 18 + #a) ~= a .. 'r' then return 0 end
local t = call('TIME')
local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
local f = tonumber(string.sub(v, 2, 17))
local left = call('PTTL', K)
if left <= 0 or f >= ms * 1000 + 1000 then return 0 end
call('PEXPIRE', K, math.max(left, tonumber(ARGV[2])))
call('SET', KEYS[2], string.sub(v, 1, 17) .. a .. 'h0000000000000' .. ms .. ARGV[4], 'PX', ARGV[3])
return f
