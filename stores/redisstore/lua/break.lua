-- Ends all holds of the name, if the fence is still the one that the caller has seen.
-- ARGV: 2 fence, or "any" if the store has no fences
if ARGV[2] ~= 'any' and note.fence ~= tonumber(ARGV[2]) then return { 'L' } end
if spent(false, 0) then return { 'U' } end
-- A string may be a lock of redsync, or any value of an application.
local value = redis.call('TYPE', K).ok == 'string' and redis.call('GET', K)
if value and not known(value) then return redis.error_reply(REFUSED_BREAK .. ' ' .. K) end
begin()
clear()
note.token = nil
for _, f in ipairs(redis.call('HKEYS', H)) do
  local kind = string.sub(f, 1, 1)
  if kind ~= 'w' then redis.call('HDEL', H, f) end
end
local fence = newFence(false, 0)
dispatch(nil, true)
finish()
return { 'G', int(fence), '0' }
