end
-- Lets a waiter for a permit join the queue of the gate, or look again. The first waiter in the
-- queue gets the gate. A waiter that has the gate takes a free permit. If no permit is free, a
-- message will wake it. slot_pass.lua has the states of a waiter.
--
-- slot_begin.lua, the files of a full script, slot_step.lua and wait.lua come before this file.
-- They define the function onLock(KEYS, ARGV), which this file calls for the gate and each permit.
-- KEYS: 1 to 6 the six keys of the gate, as in prelude.lua; then six keys for each permit
-- ARGV: as in wait.lua, and 10 ttl. The mode (3) is always p. If ARGV 8 is "0", the waiter
--       gives up: it loses its place in the queue, the gate and its permit.
-- Returns
--   {G, slot, fence, ms left}       if the token has a permit
--   {W, ms until the next look, …}  if it waits; the rest is as in wait.lua
--   {R}                             if it has given up
--   {U}                             if no fence is left
local call, token = redis.call, ARGV[2]
local function run(i, step)
  ARGV.step = step
  return onLock({ KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3], KEYS[i + 4], KEYS[i + 5] }, ARGV)
end
local function stopWatching()
  for i = 7, #KEYS, 6 do call('ZREM', KEYS[i + 4], ARGV[6] .. ' ' .. ARGV[7]) end
end
local notes, mine = {}, nil
for i = 7, #KEYS, 6 do notes[#notes + 1] = KEYS[i + 1] end
local counted = string.format(FORMAT_LENGTH, #token) .. token
for i, v in ipairs(call('MGET', unpack(notes))) do
  if v and string.sub(v, NOTE_LENGTH, NOTE_FENCE_END + #counted) == counted then mine = 1 + 6 * i end
end
if ARGV[8] == '0' then
  if mine then run(mine, 'leave') end
  run(1, 'leave')
  stopWatching()
  return { 'R' }
end
if mine then
  local got = run(mine, 'mine')
  if got[1] == 'G' then return { 'G', (mine - 7) / 6, got[2], got[3] } end
end
local t, me = call('TIME'), ARGV[6] .. ' ' .. ARGV[7]
local us = t[1] * 1000000 + t[2]

-- quick makes a quick check for a waiter that has just got the gate. If no permit is free, quick
-- returns the time until the next look. Otherwise, or if the lease of the gate must be extended,
-- quick returns nil. Then the rest of the script must run, which takes ten times as long.
local function quick()
  if call('HGET', KEYS[3], 's') ~= counted .. me .. ' ' .. ARGV[5] then return end
  local left, look = call('PTTL', KEYS[1]), nil
  if left <= MS_GATE_LOOK then return end
  for i = 7, #KEYS, 6 do
    local lease, flag = call('PTTL', KEYS[i]), call('GETRANGE', KEYS[i + 1], 0, 0)
    if lease <= 0 or flag ~= NOTE_SIMPLE and flag ~= NOTE_MORE or call('EXISTS', KEYS[i + 3]) == 1 then return end
    look = math.min(look or lease + 1, lease + 1)
  end
  for i = 7, #KEYS, 6 do
    -- Without memory, the server refuses ZADD as the first write. The full look writes something
    -- else.
    if type(redis.pcall('ZADD', KEYS[i + 4], math.floor(us / 1000), me)) == 'table' then return end
    call('PEXPIRE', KEYS[i + 4], MS_ALIVE_LINGER)
    call('SETRANGE', KEYS[i + 1], 0, NOTE_MORE)
  end
  return math.min(look, MS_GATE_LOOK)
end
local look = quick()
if look then return { 'W', look, 0, string.format('%.0f', us) } end
local got = run(1, 'gate')
if got[1] ~= 'G' then return got end
for i = 7, #KEYS, 6 do
  got = run(i, 'permit')
  if got[1] ~= 'W' then
    run(1, 'leave')
    stopWatching()
    if got[1] ~= 'G' then return got end
    return { 'G', (i - 7) / 6, got[2], got[3] }
  end
  look = math.min(look or got[2], got[2])
end
run(1, 'keep')
return { 'W', math.min(look, MS_GATE_LOOK), 0, string.format('%.0f', us) }
