-- This file is a part of the function onLock in await_slot.lua. ARGV.step says what onLock does:
--
--   mine    extends the hold that the token has on this permit, or returns {L}
--   permit  takes the permit if it is free. Otherwise returns {W, ms until the next look}, and a
--           message will wake the waiter when the permit may be free.
--   keep    extends the lease of the gate, and writes the field s of the gate's hash
--   leave   ends the token's hold, or removes the token from the queue
--   gate    does what wait.lua does. The text of wait.lua follows this file.
--
-- The arguments are those of await_slot.lua.
local step, me, who = ARGV.step, ARGV[2], ARGV[5]
local function claimed(til) -- extends the hold of the token; a reservation becomes a hold
  begin()
  local r = record(me)
  if r.state == NOTE_RESERVED then r.state, r.since, r.holder = NOTE_HELD, ms, who end
  put(r)
  add(me, false, til)
  return r
end
if step == 'mine' then
  purge()
  local e = live(me)
  if not e or note.token ~= me then return { 'L' } end
  e = math.max(e, ms + ARGV[10])
  local r = claimed(e)
  finish()
  return granted(r, e)
end
if step == 'permit' then
  purge()
  if redis.call('ZCARD', Q) > 0 then dispatch() end
  if blocked(false) or redis.call('ZCARD', Q) > 0 then
    redis.call('ZREMRANGEBYSCORE', B, int(MS_ALIVE - ms), int(ms - MS_ALIVE)) -- as in wait.lua
    redis.call('ZADD', B, ms, ARGV[6] .. ' ' .. ARGV[7])
    redis.call('PEXPIRE', B, MS_ALIVE + MS_LINGER)
    finish()
    return { 'W', math.max(left(), 0) + 1 }
  end
  if spent(false, 0) then return { 'U' } end
  local til = ms + ARGV[10]
  grant(me, false, til, 0, who, NOTE_HELD, 0)
  finish()
  return granted(record(me), til)
end
if step == 'keep' then
  local e = live(me)
  if not e or note.token ~= me then return { 'L' } end
  claimed(math.max(e, ms + MS_GATE))
  redis.call('HSET', H, 's', named(me, ARGV[6], ARGV[7], who))
  finish()
  return { 'G' }
end
if step == 'leave' then
  begin()
  purge()
  if live(me) then
    remove(me)
    forget(me)
    redis.call('HDEL', H, 's')
  else
    leave(me)
  end
  dispatch(nil, true)
  finish()
  return { 'R' }
end
