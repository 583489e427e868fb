-- pass.lua and swap.lua call these functions for the key itself. They are for a key that is a
-- string; see string.lua.
local function held() return redis.pcall('GET', K) == token end
local heldAlone = held
local function replace(successor, ttl)
  call('DEL', K) -- first: without memory, the server refuses SET as the first write
  call('SET', K, successor, 'PX', ttl)
end
local function remove() call('DEL', K) end
