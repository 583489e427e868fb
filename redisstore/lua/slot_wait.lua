end
-- Looks at all permits, and asks for a message when one of them may be free. The text of wait.lua,
-- with the texts that precede it, is the function one(KEYS, ARGV). It is called for a waiter
-- without a place in the queue. KEYS are those of wait.lua for each permit, and ARGV are those of
-- wait.lua.
-- Returns {N} if a permit may be free, or {W, ms until the next look}.
local look
for i = 1, #KEYS, 6 do
  local got = one({ KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3], KEYS[i + 4], KEYS[i + 5] }, ARGV)
  if got[1] ~= 'W' then return got end
  look = math.min(look or got[2], got[2])
end
return { 'W', look }
