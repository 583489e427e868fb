end
-- Looks at all permits for a waiter without a place in the queue. Asks for a message when one of
-- the permits may be free. The script has the function one(KEYS, ARGV) before this text; it
-- contains wait.lua and the texts that wait.lua needs.
-- KEYS: those of wait.lua for each permit
-- ARGV: those of wait.lua
-- Returns {N} if a permit may be free, or {W, ms until the next look}.
local look
for i = 1, #KEYS, 6 do
  local got = one({ KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3], KEYS[i + 4], KEYS[i + 5] }, ARGV)
  if got[1] ~= 'W' then return got end
  look = math.min(look or got[2], got[2])
end
return { 'W', look }
