-- Ends the hold of a name that nobody waits for.
-- KEYS: 1 name  2 note
-- ARGV:
--  1 the token
--  2 "1" if the store has the option OnlyPadlock; otherwise this argument is absent
-- Returns 1 if the hold has ended, 2 if pass.lua must run because there may be waiters, or 0 if
-- release.lua must run.
local call = redis.call
local v = call('MGET', KEYS[1], KEYS[2])
if v[1] ~= ARGV[1] then return 0 end
local note = v[2]
if note and string.byte(note) ~= BYTE_SIMPLE then return 2 end
call('DEL', KEYS[1]) -- first: without memory, the server refuses SET as the first write
if note and ARGV[2] then call('SET', KEYS[2], string.sub(note, 1, NOTE_FENCE_END), 'KEEPTTL') end
return 1
