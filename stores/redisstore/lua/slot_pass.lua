end
-- Ends the hold of a permit and reserves the permit for the waiter that has the gate. In the same
-- step, the gate passes to the next waiter in its queue.
--
-- A waiter for a permit has one of these states:
--
--   queued  It is in the queue of the gate.
--   named   It has the gate. The field s in the hash of the gate describes it (see named in
--           publish.lua), so this script can reserve a permit for it.
--   alone   It has the gate, but the field s has not been written yet.
--   served  It has a permit or a reservation of a permit. It has left the gate.
--   gone    It has nothing any more.
--
-- The transitions are:
--
--   state   event                                         new state
--   queued  this version of padlock gives it the gate     named
--   queued  an older padlock gives it the gate            alone
--   alone   await_slot.lua finds no free permit           named
--   alone   await_slot.lua finds a free permit            served
--   named   await_slot.lua finds a free permit            served
--   named   slot_pass.lua reserves a permit for it        served
--   named   slot_pass.lua finds that its process is gone  gone
--   named   the lease of the gate ends                    gone
--   alone   the lease of the gate ends                    gone
--   any     the waiter gives up                           gone
--
-- The lease of the gate ends only if the process of the waiter is dead or frozen. A frozen waiter
-- that looks again is queued again.
--
-- After its first look with the gate, the waiter is also in the sorted set B of each permit. If a
-- permit is released without this script, the release wakes the waiters in B.
--
-- The script consists of several files, and this one is the last. The others (slot_begin.lua,
-- handover.lua, key_set.lua or key_string.lua, publish.lua, slot_pass_step.lua and pass.lua) define
-- the function onLock(KEYS, ARGV), which changes one lock.
-- KEYS: 1 to 4 name, note, records and queue of the permit; 5 to 8 those of the gate; then the
--       sorted set B of each permit
-- ARGV: 1 to 3 as in handover.lua  4 the number of the permit
-- Returns
--   1  if the permit was reserved
--   2  if the permit is free, because the process of the waiter is gone; the gate may be free, too
--   3  if the permit was reserved, and the gate may be free although there are waiters
--   0  if nothing was done
local call = redis.call
local permit, gate = { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }, { KEYS[5], KEYS[6], KEYS[7], KEYS[8] }
local s = call('HGET', KEYS[7], 's')
if not s then return 0 end
local n = string.sub(s, 1, COUNTED_TOKEN - 1) + 0
local counted, head = string.sub(s, 1, COUNTED_TOKEN - 1 + n), string.sub(s, COUNTED_TOKEN, COUNTED_TOKEN - 1 + n)
local chan, id, holder = string.match(string.sub(s, COUNTED_TOKEN + n), '^(%x+) (%d+) (.*)$')
local me = chan .. ' ' .. id
-- B may have another waiter, which asked for another number of permits or uses an older padlock.
-- Then the script does nothing, so that both waiters have a chance to get the permit.
local watchers = KEYS[9 + ARGV[4]]
if call('ZCARD', watchers) > (call('ZSCORE', watchers, me) and 1 or 0) then return 0 end
if onLock(gate, { counted, ARGV[2], ARGV[3], step = 'holds' }) ~= 1 then return 0 end
local to = { token = head, chan = chan, id = id, holder = holder }
local done = onLock(permit, { ARGV[1], ARGV[2], ARGV[3], step = 'permit', to = to, slot = ARGV[4] })
if done == 0 then return 0 end
for i = 9, #KEYS do call('ZREM', KEYS[i], me) end
call('HDEL', KEYS[7], 's')
local passed = onLock(gate, { counted, ARGV[2], ARGV[3] })
if passed == 0 then onLock(gate, { counted, ARGV[2], ARGV[3], step = 'ends' }) end
if done == 1 and passed ~= 1 and call('EXISTS', KEYS[8]) == 1 then return 3 end
return done
