-- Tries to take the name, repeats a try, claims a reservation, or replaces a token.
-- ARGV: 2 token  3 mode  4 ttl  5 FenceAbove of the request  6 holder
--       7 token to be replaced, or empty
local token, shared, ttl, above = ARGV[2], ARGV[3] == 's', tonumber(ARGV[4]), tonumber(ARGV[5])
local holder, old = ARGV[6], ARGV[7]
-- The release of this token has overtaken the acquire.
if redis.call('ZSCORE', X, token) then return { 'L' } end
purge()
dispatch(token)
local e = live(token)
if e then
  begin()
  local was, r = not writing(), record(token)
  local til = math.max(e, ms + ttl)
  if not r and spent(was, above) then return { 'U' } end
  if not r then -- the hold has no record, or no longer has one
    r = { token = token, shared = was, fence = newFence(was and count() > 1, above), since = ms, state = NOTE_HELD, holder = holder }
  elseif r.state == NOTE_RESERVED then
    r.state, r.since, r.holder = NOTE_HELD, ms, holder
  end
  put(r)
  add(token, was, til)
  finish()
  return granted(r, til, was)
end
if old ~= '' then
  local oe = live(old)
  begin()
  if not oe then
    lost(token)
    return { 'L' } -- even if the lease of this token has expired: the name may be free
  end
  if note.fence >= LAST then return { 'U' } end
  local was = not writing()
  remove(old)
  forget(old)
  withdraw(old)
  local til = ms + ttl
  local joins = was and taken()
  local fence = grant(token, was, til, above, holder, NOTE_HELD)
  if joins then -- the new hold has the fence of the other readers, and needs a greater one
    fence = newFence(false, above)
    local n = record(token)
    n.fence = fence
    put(n)
  end
  finish()
  return { 'G', int(fence), int(til - ms), was and 1 or 0 }
end
if blocked(shared) or redis.call('ZCARD', Q) > 0 then
  begin()
  -- The token may stand in the queue: its reservation has lapsed, and it has joined again. A token
  -- that is refused has nothing, so it gives its place up.
  if leave(token) then dispatch(nil, true) end
  finish()
  return held(token, shared)
end
if spent(shared, above) then return { 'U' } end
local til = ms + ttl
local fence = grant(token, shared, til, above, holder, NOTE_HELD)
finish()
return { 'G', int(fence), int(til - ms) }
