end
-- Looks at all permits for a waiter that is not in the queue. If none of them is free, a message
-- will wake the waiter when one of them may be free.
--
-- slot_begin.lua, wait.lua and the files that wait.lua needs come before this file. They define the
-- function onLock(KEYS, ARGV), which looks at one permit. This file calls onLock for each permit.
-- KEYS: those of wait.lua for each permit
-- ARGV: those of wait.lua
-- Returns {N} if a permit may be free, or {W, ms until the next look}.
local look
for i = 1, #KEYS, 6 do
  local got = onLock({ KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3], KEYS[i + 4], KEYS[i + 5] }, ARGV)
  if got[1] ~= 'W' then return got end
  look = math.min(look or got[2], got[2])
end
return { 'W', look }
