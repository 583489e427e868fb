-- Ends an exclusive hold. If nobody waits for the name, this file does it. Otherwise handover.lua
-- and pass.lua, which follow, hand the name over. handover.lua lists KEYS and ARGV.
-- Returns 1 if the hold has ended and nobody waits, 0 if release.lua must run, or the result of
-- pass.lua.
do
  local call, K, F, a = redis.call, KEYS[1], KEYS[2], ARGV[1]
  local v = call('GET', F)
  if not v or string.sub(v, NOTE_LENGTH, NOTE_FENCE_END + #a) ~= a then return 0 end
  if string.byte(v) == BYTE_SIMPLE then
    if redis.pcall('ZREM', K, string.sub(a, COUNTED_TOKEN)) ~= 1 then return 0 end
    call('ZREM', K, '__write__')
    if call('EXISTS', K) == 1 then redis.pcall('PERSIST', K) end -- an application's; see expire in set.lua
    if ARGV[4] == '1' then call('SET', F, string.sub(v, 1, NOTE_FENCE_END), 'KEEPTTL') end
    return 1
  end
end
