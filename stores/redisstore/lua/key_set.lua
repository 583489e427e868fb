-- pass.lua and swap.lua call these functions to read and change the key of the name. This file is
-- for stores that keep the key as a sorted set, as Symfony does; see set.lua. held is true if the
-- token still has its exclusive hold. PHP may have turned the hold into a shared one by removing
-- the member __write__.
local function held()
  local z = redis.pcall('ZRANGE', K, 0, 2)
  return #z == 2 and (z[1] == '__write__' and z[2] == token or z[2] == '__write__' and z[1] == token)
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
