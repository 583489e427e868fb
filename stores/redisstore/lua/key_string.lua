-- pass.lua and swap.lua call these functions to read and change the key of the name. This file is
-- for stores that keep the key as a string; see string.lua.
local function held() return both[2] == token end
local heldAlone = held
-- replace gives the key to another token, the successor. The parameter unwritten is true if the
-- script has not written anything yet.
local function replace(successor, ttl, unwritten)
  if unwritten then call('DEL', K) end -- without memory, the server refuses SET as the first write
  call('SET', K, successor, 'PX', ttl)
end
local function remove() call('DEL', K) end
