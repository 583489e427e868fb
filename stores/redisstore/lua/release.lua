-- Ends a hold, a reservation or a place in the queue. With an empty token, nothing ends, and the
-- script only hands the name over to waiters.
-- ARGV: 2 token  3 cool-down in ms
local token, cool = ARGV[2], tonumber(ARGV[3])
begin()
purge()
local answer, moved = 'R', true
if token == '' then
  -- nothing ends
elseif live(token) then
  local r = record(token)
  local shared = not writing()
  remove(token)
  forget(token)
  local til = cool > 0 and ms + cool or 0
  if cool > 0 then add(COOL .. int(us) .. ' ' .. (r and r.holder or ''), shared, til) end
  moved = ends(til) or cool > 0
  if cool > 0 then planLooks() end
elseif leave(token) then
  -- the token had a place in the queue
else
  answer = lostReason(token)
  forget(token)
  -- An acquire of this token may still be on its way.
  redis.call('ZREMRANGEBYSCORE', X, '-inf', int(ms))
  redis.call('ZADD', X, ms + MS_LINGER, token)
  redis.call('PEXPIRE', X, MS_LINGER)
end
withdraw(token)
dispatch(nil, moved)
finish()
return { answer }
