-- The key is a string, as in all locks that are taken with the command SET NX PX. It contains the
-- token and expires with the lease. There are exclusive holds only.
local kind = redis.call('TYPE', K).ok
if kind ~= 'string' and kind ~= 'none' then return redis.error_reply(REFUSED_TYPE .. ' ' .. kind .. ' ' .. K) end

local ENDLESS = 9e15 -- the end of a key without an expiry, which only other programs make
local due -- the end of a lease that this script has begun; expire writes it
local function ending() -- the end of the key
  if due then return due end
  local left = redis.call('PTTL', K)
  return left == -1 and ENDLESS or ms + math.max(left, 0)
end
local function live(token) -- the end of its lease, or nil
  if redis.call('GET', K) ~= token then return nil end
  local til = ending()
  return til > ms and til or nil -- its last millisecond is over
end
local function purge() end
local top = ending
local function taken() return redis.call('EXISTS', K) == 1 end
local writing = taken
local function count() return 1 end
local function only(token) return live(token) end
local function add(token, shared, til)
  redis.call('SET', K, token)
  due = til
end
local function remove(token)
  redis.call('DEL', K)
  due = nil
end
-- Nothing may look at the key after expire; see set.lua.
local function expire() if due then redis.call('PEXPIREAT', K, due) end end
local function demote(token) end
local clear = remove
local function each(f)
  local token = redis.call('GET', K)
  if token then return f(token, top(), false) end
end
