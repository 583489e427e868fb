-- Changes the mode of a live hold.
-- ARGV: 2 token  3 mode  4 ttl  5 FenceAbove of the request
local token, shared, ttl, above = ARGV[2], ARGV[3] == 's', tonumber(ARGV[4]), tonumber(ARGV[5])
begin()
purge()
local e = live(token)
if not e then return lost(token) end
local r = record(token) or { token = token, shared = not writing(), fence = 0, since = ms, state = NOTE_HELD, holder = '' }
local til = math.max(e, ms + ttl)
if shared == not writing() then
  -- the hold already has this mode
elseif shared then
  forget(token)
  r.shared = true
  put(r)
  demote(token)
  if YIELDS then redis.call('ZADD', K, 1, LOOK) end
elseif only(token) then
  if spent(false, above) then return { 'U' } end
  forget(token)
  r.shared = false
  r.fence = newFence(false, above)
  put(r)
else
  local i = intent()
  if i and i ~= token then return { 'C' } end
  redis.call('HSET', H, 'i', int(ms + INTENT) .. ' ' .. token)
  finish()
  return held(token, false)
end
withdraw(token)
add(token, shared, til)
dispatch()
finish()
return granted(record(token), til)
