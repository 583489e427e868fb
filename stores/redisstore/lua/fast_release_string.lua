-- Ends a hold. If nobody waits for the name, this file does it. Otherwise handover.lua and
-- pass.lua, which follow, hand the name over. handover.lua lists KEYS and ARGV.
-- Returns 1 if the hold has ended and nobody waits, 0 if release.lua must run, or the result of
-- pass.lua.
do
  local call = redis.call
  local v = call('MGET', KEYS[1], KEYS[2])
  if v[1] ~= string.sub(ARGV[1], COUNTED_TOKEN) then return 0 end
  local note = v[2]
  if not note or string.byte(note) == BYTE_SIMPLE then
    call('DEL', KEYS[1]) -- first: without memory, the server refuses SET as the first write
    if note and ARGV[4] == '1' then call('SET', KEYS[2], string.sub(note, 1, NOTE_FENCE_END), 'KEEPTTL') end
    return 1
  end
end
