end
-- Extends a few leases that need the full script. slot_begin.lua, extend.lua and the files that
-- extend.lua needs come before this file. They define the function onLock(KEYS, ARGV), which
-- extends a lease. This file calls onLock for each lease.
-- KEYS: six keys for each hold, as in extend.lua
-- ARGV: 1 the settings of the store; then the token, with its length before it, and the
--       ttl of each hold
-- Returns the reply of extend.lua, or an error, for each hold. An error in one name has no effect
-- on the others.
local out = {}
for i = 1, #KEYS / 6 do
  local k = 6 * i
  local ok, r = pcall(onLock, { KEYS[k - 5], KEYS[k - 4], KEYS[k - 3], KEYS[k - 2], KEYS[k - 1], KEYS[k] },
    { ARGV[1], string.sub(ARGV[2 * i], COUNTED_TOKEN), ARGV[2 * i + 1] })
  if not ok then r = redis.error_reply(type(r) == 'table' and r.err or tostring(r)) end
  out[i] = r
end
return out
