-- Ends an exclusive hold and grants the name to the next of the same process, if
-- nobody waits. After it comes pass_set.lua, for when somebody does.
-- KEYS: 1 name 2 note 3 records 4 queue 5 bells 6 tokens that came too late
-- ARGV: 1 to 3 as there, and of the next 4 length of the token and token 5 ttl 6 ttl + KEEP 7 end of the note
-- Answers the fence, or what pass_set.lua answers.
do
  local call, K, F, a, n = redis.call, KEYS[1], KEYS[2], ARGV[1], string.sub(ARGV[4], 4)
  local v = call('GET', F)
  if not v or string.sub(v, 18, 17 + #a) ~= a then return 0 end
  local state = string.sub(v, 18 + #a, 31 + #a)
  if state ~= 'h0000000000000' and string.byte(state) ~= 72 then return 0 end -- 72: H
  local more = string.byte(v) ~= 45 and call('EXISTS', KEYS[3], KEYS[4], KEYS[5], KEYS[6]) or 0 -- 45: -
  if more == 0 or call('EXISTS', KEYS[4], KEYS[5]) == 0 and not call('ZSCORE', KEYS[6], n) then
    local token = string.sub(a, 4)
    local z = redis.pcall('ZRANGE', K, 0, 2, 'WITHSCORES')
    if #z ~= 4 or (z[1] ~= '__write__' or z[3] ~= token) and (z[3] ~= '__write__' or z[1] ~= token) then return 0 end
    local t = call('TIME')
    local us = t[1] * 1000000 + t[2]
    local ms = math.floor(us / 1000)
    local f = math.max(us, string.sub(v, 2, 17) + 1)
    if tonumber(z[2]) <= ms or tonumber(z[4]) <= ms or f > us + 1000000 then return 0 end
    local til = string.format('%.0f', ms + ARGV[5])
    call('ZREM', K, token)
    call('ZADD', K, til, n, til, '__write__')
    call('PEXPIREAT', K, til)
    call('SET', F, (more == 0 and '-' or '!') .. string.format('%016.0f', f) .. ARGV[4] .. ARGV[7], 'PX', ARGV[6])
    return f
  end
end
