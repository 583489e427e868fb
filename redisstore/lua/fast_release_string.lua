-- Ends the hold of a name that nobody waits for.
-- KEYS: 1 name  2 note
-- ARGV: 1 token  2 ALONE
-- Returns 1: ended; 2: somebody may wait, use pass.lua; or 0: use release.lua.
local call = redis.call
local v = call('MGET', KEYS[1], KEYS[2])
if v[1] ~= ARGV[1] then return 0 end
local note = v[2]
if note and string.byte(note) ~= BYTE_SIMPLE then return 2 end
call('DEL', KEYS[1]) -- first: a server without memory refuses a script that begins with SET
if note and ARGV[2] then call('SET', KEYS[2], string.sub(note, 1, NOTE_FENCE_END), 'KEEPTTL') end
return 1
