-- As in Symfony, the key is a sorted set of tokens. The score of a token is the end of its lease.
-- The key expires with its last member. The set can have two more members, which are not tokens.
-- The member "__write__" (the constant WRITE) says that the hold is exclusive. The member
-- "padlock:look" (the constant LOOK) has the score 1; see queue.lua.
local plain -- true if the key is a string: a SET NX PX lock, which excludes all others
local kind = redis.call('TYPE', K).ok
if kind == 'string' and redis.call('PTTL', K) > 0 then
  plain = true
elseif kind ~= 'zset' and kind ~= 'none' then
  return redis.error_reply(REFUSED_TYPE .. ' ' .. kind .. ' ' .. K)
end
-- A sorted set of an application is no lock, and stays as it is. It has no member WRITE, so its
-- members must be tokens: all whose leases have ended, which purge would remove, and the next one.
-- A caller that has a hold can still extend or release it.
if kind == 'zset' and not redis.call('ZSCORE', K, WRITE) and not redis.call('ZSCORE', K, ARGV[2] or '') then
  local i, m = 0, nil
  repeat
    m = redis.call('ZRANGE', K, i, i, 'WITHSCORES')
    if m[1] and not known(m[1]) then return redis.error_reply(REFUSED_TYPE .. ' zset ' .. K) end
    i = i + 1
  until not m[1] or tonumber(m[2]) > ms
end

local function live(token) -- the end of its lease, or nil
  if plain then return nil end
  local e = redis.call('ZSCORE', K, token)
  return e and tonumber(e) > ms and tonumber(e) or nil
end
-- expire lets the key expire with its last member; finish calls it. If an application has written into
-- the key during a hold, the key does not expire, so that the application loses nothing.
--
-- Nothing may look at the key after that. Before Redis 7.2, a script sees the keys as of its beginning,
-- and the clock as it is now. If the clock is set back meanwhile, the new end may be before the
-- beginning of the script. Then the next look at the key would remove it.
local touched
local function expire()
  if not touched then return end
  local first, last = redis.call('ZRANGE', K, 0, 0)[1], redis.call('ZREVRANGE', K, 0, 0, 'WITHSCORES')
  if not first then return end
  if known(first) and known(last[1]) then
    redis.call('PEXPIREAT', K, last[2])
  else
    redis.pcall('PERSIST', K)
  end
end
local function purge()
  if plain then return end
  local lapsed = redis.call('ZRANGEBYSCORE', K, '(1', int(ms))
  for _, token in ipairs(lapsed) do
    if known(token) then
      redis.call('ZREM', K, token)
      if token ~= WRITE and token ~= note.token then redis.call('HDEL', H, 't' .. token) end
    end
  end
end
local function top(except) -- when the last lease ends, apart from that of the token except, if given
  if plain then return ms + redis.call('PTTL', K) end
  local last = redis.call('ZREVRANGE', K, 0, 1, 'WITHSCORES')
  return tonumber(last[except and last[1] == except and 4 or 2] or 0)
end
local function taken() return plain or redis.call('EXISTS', K) == 1 end
local function writing() return plain or redis.call('ZSCORE', K, WRITE) end
local function count() return redis.call('ZCARD', K) - (redis.call('ZSCORE', K, LOOK) and 1 or 0) end
local function only(token) return not plain and count() == 1 and live(token) end
local function add(token, shared, til)
  if shared then redis.call('ZADD', K, til, token) else redis.call('ZADD', K, til, token, til, WRITE) end
  touched = true
end
local function remove(token)
  if redis.call('ZREM', K, token) == 1 and redis.call('ZSCORE', K, WRITE) then redis.call('ZREM', K, WRITE) end
  touched = true
end
local function demote(token) redis.call('ZREM', K, WRITE) touched = true end
local function clear()
  if plain then redis.call('DEL', K) plain = nil return end
  for _, member in ipairs(redis.call('ZRANGE', K, 0, -1)) do
    if known(member) then redis.call('ZREM', K, member) end
  end
  touched = true
end
-- each(f) calls the function f for every live member, until f returns true. The arguments of f are
-- the token, the end of the lease, and whether the hold is shared.
local function each(f)
  if plain then return f('', ms + redis.call('PTTL', K), false) end
  local all = redis.call('ZRANGE', K, 0, -1, 'WITHSCORES')
  local w = tonumber(redis.call('ZSCORE', K, WRITE) or 0) > ms
  for i = 1, #all, 2 do
    local til = tonumber(all[i + 1])
    if all[i] ~= WRITE and til > ms and f(all[i], til, not w) then return true end
  end
end
