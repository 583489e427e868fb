-- Ends an exclusive hold and hands the name to the first in the queue, who
-- wants it alone.
-- KEYS: 1 name 2 note 3 records 4 queue
-- ARGV: 1 length of the token (3 digits) and token 2 500 + KEEP 3 COUNTS
-- and, of a waiter in the caller's process, 4 length of the token and token 5 ttl 6 ttl + KEEP 7 end of the note:
-- if it is the first it hears by the reply, and has the whole lease.
-- Answers 1, its fence, 2: ended, but the first in the queue is gone, or 0: ask release.lua.
local call, K, F, H, Q, a = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local v = call('GET', F)
if not v or string.sub(v, 18, 17 + #a) ~= a then return 0 end
local state = string.sub(v, 18 + #a, 31 + #a)
if state ~= 'h0000000000000' and string.byte(state) ~= 72 then return 0 end -- 72: H
local first = call('ZRANGE', Q, 0, 0, 'WITHSCORES')
local head, came = first[1], first[2]
local own = head and ARGV[4] and string.sub(ARGV[4], 4) == head
local w = head and call('HGET', H, 'w' .. head)
if not w then return 0 end
local seen, chan, id, holder = string.match(w, '^(%d+) %d+ (%x+) (%d+) x 0 (.*)$')
local t = call('TIME')
local f = t[1] .. string.sub('00000' .. t[2], -6)
local us = t[1] * 1000000 + t[2]
local ms = math.floor(us / 1000)
if not seen or seen + 45000 < ms or string.sub(v, 2, 17) >= f then return 0 end
if not redis.pcall('ZSCORE', K, '__write__') then return 0 end -- PHP has demoted it, and others may read
if redis.pcall('ZREM', K, string.sub(a, 4)) ~= 1 then return 0 end
call('ZREM', Q, head)
call('HDEL', H, 'w' .. head)
local til = string.format('%.0f', ms + (own and ARGV[5] or 500))
call('ZADD', K, til, head, til, '__write__')
call('PEXPIREAT', K, til)
if own then
  call('SET', F, '!' .. f .. ARGV[4] .. ARGV[7], 'PX', ARGV[6])
else
  call('SET', F, '!' .. f .. string.format('%03d', #head) .. head .. 'r0000000000000' .. ms .. holder, 'PX', ARGV[2])
end
if not own and redis.pcall('PUBLISH', 'padlock:' .. chan, 'h ' .. id .. ' ' .. f) == 0 and ARGV[3] == '1' then
  call('ZREM', K, head, '__write__')
  call('SET', F, '!' .. f, 'PX', ARGV[2])
  return 2
end
-- Somebody must look when the reservation ends, in case that it is not claimed.
-- Who came less than 500 ms ago does so anyway, and if the first has, so have
-- all. Otherwise some are told to, four times a second at most: the next three,
-- and two that will still be there when these have gone.
if us - came < 500000 or math.floor(us / 250000) == math.floor(string.sub(v, 2, 17) / 250000) then return own and us or 1 end
local n = call('ZCARD', Q)
local ranks = { 0, 1, 2, math.floor(n / 2), n - 1 }
for i = 1, 5 do
  local heir = ranks[i] < n and (i < 4 or ranks[i] > ranks[i - 1]) and call('ZRANGE', Q, ranks[i], ranks[i])[1]
  local chan, id = string.match(heir and call('HGET', H, 'w' .. heir) or '', '^%d+ %d+ (%x+) (%d+)')
  if chan then redis.pcall('PUBLISH', 'padlock:' .. chan, 'f ' .. id .. ' ' .. 490 + 10 * i) end
end
return own and us or 1
