-- The functions of pass.lua and swap.lua for the key itself, if it is a string: see string.lua.
local function held() return redis.pcall('GET', K) == token end
local heldAlone = held
local function replace(successor, ttl)
  call('DEL', K) -- first: a server without memory refuses a script that begins with SET
  call('SET', K, successor, 'PX', ttl)
end
local function remove() call('DEL', K) end
