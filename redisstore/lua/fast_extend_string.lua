-- Makes a lease longer.
-- KEYS: 1 name 2 note   ARGV: 1 token 2 ttl 3 KEEP
-- Answers {fence, ms left}, or 0: ask extend.lua.
local v = redis.call('MGET', KEYS[1], KEYS[2])
if v[1] ~= ARGV[1] then return 0 end
local left, ttl = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
if left <= 0 then return 0 end
if left < ttl then
  left = ttl
  redis.call('PEXPIRE', KEYS[1], ttl)
end
local f = 0
if v[2] then
  f = tonumber(string.sub(v[2], 2, 17))
  local t = redis.call('TIME')
  local til = t[1] * 1000 + math.floor(t[2] / 1000) + ttl + 60000
  redis.call('PEXPIREAT', KEYS[2], math.max(math.ceil(f / 1000), til) + ARGV[3])
end
return { f, left }
