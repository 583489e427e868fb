end
-- Takes a permit that nobody holds and nobody waits for. A lock can have several permits, each with
-- a name of its own. Callers that wait for any of the permits wait at another name, which is called
-- the gate.
--
-- slot_begin.lua and a fast acquire script come before this file. They define the function
-- onLock(KEYS, ARGV), which takes one lock. This file calls onLock for each permit.
-- KEYS: 1 the gate  2 the gate's queue; then the name and the note of each permit
-- ARGV: 1 to 4 as in the fast acquire script
--       5 "1" if the caller may take a permit even though other callers wait at the gate
-- Returns
--   {G, slot, fence}  if a permit was granted
--   {F, slot}         if the token is in the note of this permit, so acquire.lua must run for it
--   {B, …}            if no permit was granted, and other callers are at the gate
--   {H, …}            if no permit was granted, and the caller need not wait at the gate
-- After B or H follows an element for each permit: the hold that is in the way, or 0 if this script
-- found none. After H, acquire.lua must run for each permit that has 0.
local call, a, notes, n = redis.call, ARGV[1], {}, (#KEYS - 2) / 2
for i = 1, n do notes[i] = KEYS[2 * i + 2] end
for i, v in ipairs(call('MGET', unpack(notes))) do
  if v and string.sub(v, NOTE_LENGTH, NOTE_FENCE_END + #a) == a then return { 'F', i - 1 } end
end
local behind = ARGV[5] ~= '1' and call('EXISTS', KEYS[1], KEYS[2]) > 0
local out = { behind and 'B' or 'H' }
for i = 1, n do
  local key, got = KEYS[2 * i + 1], 0
  if not behind or call('EXISTS', key) == 1 then got = onLock({ key, notes[i] }, ARGV) end
  if type(got) == 'number' and got > 0 then return { 'G', i - 1, got } end
  out[i + 1] = got
end
return out
