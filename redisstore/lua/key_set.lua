-- pass.lua and swap.lua call these functions for the key itself. They are for a key that is a
-- sorted set, as in Symfony; see set.lua.
local function held() -- true if the hold is still exclusive: PHP may have demoted it
  return redis.pcall('ZSCORE', K, '__write__') and type(redis.pcall('ZSCORE', K, token)) == 'string'
end
local function heldAlone() -- true if the lease has not ended and the key has no other member
  local z = redis.pcall('ZRANGE', K, 0, 2, 'WITHSCORES')
  return #z == 4 and (z[1] == '__write__' and z[3] == token or z[3] == '__write__' and z[1] == token)
    and tonumber(z[2]) > ms and tonumber(z[4]) > ms
end
local function replace(successor, ttl)
  local til = string.format('%.0f', ms + ttl)
  call('ZREM', K, token)
  call('ZADD', K, til, successor, til, '__write__')
  call('PEXPIREAT', K, til)
end
local function remove(successor) call('ZREM', K, successor, '__write__') end
