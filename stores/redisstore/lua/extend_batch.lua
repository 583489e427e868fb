end
-- Extends many leases. slot_begin.lua and a fast extend script come before this file. They define
-- the function onLock(KEYS, ARGV), which extends a lease. This file calls onLock for each lease.
-- KEYS: the name and the note of each hold
-- ARGV: 1 KEEP; then the token, as in the fast extend script, and the ttl of each hold
-- Returns two numbers for each hold:
--   the fence, or -1 if extend.lua must run for this hold
--   for how many ms the lease still lasts, or -1 if extend.lua must run for this hold
-- An error in one name has no effect on the others.
--
-- All leases count from the time at which the script begins. So the leases of the last holds end
-- early, by at most 1 ms.
local t, keep, out, n = redis.call('TIME'), ARGV[1], {}, 0
local ms = math.floor((t[1] * 1000000 + t[2]) / 1000)
local keys, args, ttl = {}, { nil, nil, keep, ms }, nil
for i = 2, #KEYS, 2 do
  -- Commands take numbers as strings. Holds with the same ttl share the strings, because making a
  -- string takes as long as a simple command.
  if ARGV[i + 1] ~= ttl then
    ttl = ARGV[i + 1]
    args[2], args[5], args[6] = ttl, string.format('%.0f', ms + ttl), string.format('%.0f', ms + ttl + keep)
  end
  keys[1], keys[2], args[1] = KEYS[i - 1], KEYS[i], ARGV[i]
  local ok, r = pcall(onLock, keys, args)
  if ok and r ~= 0 then
    out[n + 1], out[n + 2] = r[1], r[2]
  else
    out[n + 1], out[n + 2] = -1, -1
  end
  n = n + 2
end
return out
