-- The key is a string, as in all locks that are taken with the command SET NX PX. It contains the
-- token and expires with the lease. There are exclusive holds only.
local kind = redis.call('TYPE', K).ok
if kind ~= 'string' and kind ~= 'none' then return redis.error_reply(REFUSED_TYPE .. ' ' .. kind .. ' ' .. K) end

local ENDLESS = 9e15 -- the end of a key without an expiry, which only other programs make
local function live(token) -- the end of its lease, or nil
  if redis.call('GET', K) ~= token then return nil end
  local left = redis.call('PTTL', K)
  if left == 0 then return nil end -- its last millisecond is over
  return left < 0 and ENDLESS or ms + left
end
local function purge() end
local function top()
  local left = redis.call('PTTL', K)
  return left == -1 and ENDLESS or ms + math.max(left, 0)
end
local function taken() return redis.call('EXISTS', K) == 1 end
local writing = taken
local function count() return 1 end
local function only(token) return live(token) end
local function add(token, shared, til) redis.call('SET', K, token, 'PXAT', til) end
local function remove(token) redis.call('DEL', K) end
local function demote(token) end
local clear = remove
local function each(f)
  local token = redis.call('GET', K)
  if token then return f(token, top(), false) end
end
