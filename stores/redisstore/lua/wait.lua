-- A waiter runs this script to find out whether it has got the name, or may take the name. The
-- first look may put the waiter into the queue. Each look also shows that the waiter is alive.
-- ARGV: 2 token  3 mode  4 FenceAbove of the request  5 holder  6 channel  7 id
--       8 "1" to join the queue, else "0"
--       9 "1" if a message asked the waiter to look, else "0"
--       10 "1" if the waiter was in the queue at its last look, else "0"
local token, shared, chan, id = ARGV[2], ARGV[3] == 's', ARGV[6], ARGV[7]
local reserve = ARGV[8] == '1'
purge()
local mine = live(token)
if mine then begin() end
local came, joined
if reserve and not mine and spent(shared, tonumber(ARGV[4])) then
  leave(token)
  finish()
  return { 'U' }
end
if reserve and not mine then
  came = redis.call('ZSCORE', Q, token)
  came = came and tonumber(came)
  if came then
    begin()
  else
    joined = true
    local last = redis.call('ZREVRANGE', Q, 0, 0, 'WITHSCORES')[2]
    came = math.max(us, tonumber(last or 0) + 1)
    redis.call('ZADD', Q, came, token)
  end
  redis.call('HSET', H, 'w' .. token, table.concat({ int(ms), int(ms), chan, id, ARGV[3], ARGV[4], ARGV[5] }, ' '))
  redis.call('PEXPIRE', Q, MS_ALIVE + MS_LINGER)
end
-- A waiter that has lost its place, and finds hardly anybody in the queue, tells all waiters to look.
-- The server may have lost its data, and only the subscriptions still show who waits.
if joined and ARGV[10] == '1' and redis.call('ZCARD', Q) <= 3 then
  for _, chan in ipairs(redis.pcall('PUBSUB', 'CHANNELS', 'padlock:*')) do redis.pcall('PUBLISH', chan, 'l 0') end
end
local moved = dispatch(token)
if reserve then
  mine = live(token)
  if mine then
    finish()
    return granted(record(token), mine)
  end
else
  local may
  if mine then may = only(token) else may = not blocked(shared) and redis.call('ZCARD', Q) == 0 end
  if may then
    finish()
    return { 'N' }
  end
  if mine then
    redis.call('HSET', H, 'p', chan .. ' ' .. id .. ' ' .. token)
  else
    redis.call('ZREMRANGEBYSCORE', B, int(MS_ALIVE - ms), int(ms - MS_ALIVE)) -- forgets waiters whose processes are gone
    redis.call('ZADD', B, shared and -ms or ms, chan .. ' ' .. id)
    redis.call('PEXPIRE', B, MS_ALIVE + MS_LINGER)
  end
end

-- look is the time until this waiter must look again.
local rank = reserve and redis.call('ZRANK', Q, token) or 0
local look = math.max(left(mine and token), 0) + 1
-- A polling program sends no message when it releases, so the waiter looks every 25 ms.
local foreign = YIELDS and (mine or rank == 0) and each(function(t) return not record(t) and not cooling(t) end)
if foreign and (mine or reserve) then
  look = math.min(look, 25)
elseif not reserve then
  look = math.min(look, 2000)
elseif rank == 0 then
  -- The first waiter looks when the present hold ends. It looks at least once a second, because
  -- other programs send no message when they release.
  look = math.min(look, 1000)
elseif us - came < MS_RESERVE * 1000 then
  look = MS_RESERVE -- pass.lua relies on this value
elseif rank <= 2 or moved or ARGV[9] == '1' and look <= MS_RESERVE then
  -- The processes of the waiters before this one may be gone, so it looks soon after the present
  -- hold ends. This branch is for the second and the third waiter, for a waiter that has changed
  -- the queue itself (moved), and for a waiter that a message has asked to watch a short hold.
  look = math.min(math.max(look + STAGGER * math.min(rank, 2), 250), 15000)
else
  look = 15000
end
if reserve then
  redis.call('HSET', H, 'w' .. token, table.concat({ int(ms), int(ms + look), chan, id, ARGV[3], ARGV[4], ARGV[5] }, ' '))
end
finish()
return { 'W', look, joined and 1 or 0, int(note.fence) }
