end
-- Joins the queue of a name that is held, to get an exclusive hold. If nobody holds the name and
-- nobody waits for it, the script takes the name at once.
--
-- slot_begin.lua and a fast acquire script come before this file. They define the function
-- onLock(KEYS, ARGV), which takes the name.
-- KEYS: 1 name  2 note  3 records  4 queue
-- ARGV: 1 token  2 channel, id, mode, above and holder, separated by spaces
--       3 ttl  4 ttl + KEEP (without 3 and 4, the script does not take a free name)
-- Returns
--   {ms until the waiter must look again}  if it has joined the queue
--   the fence                              if it has taken the name
--   an empty list                          if wait.lua must run
local call, token = redis.call, ARGV[1]
local left = call('PTTL', KEYS[1])
if left == -2 and ARGV[3] then -- the key does not exist
  local holder = string.match(ARGV[2], '^%S+ %d+ x %d+ (.*)$')
  local fence = holder and onLock(KEYS, { string.format(FORMAT_LENGTH, #token) .. token, ARGV[3], ARGV[4], holder })
  return type(fence) == 'number' and fence > 0 and fence or {}
end
local flag = call('GETRANGE', KEYS[2], 0, 0)
if left <= 0 or flag ~= NOTE_SIMPLE and flag ~= NOTE_MORE then return {} end
local t = call('TIME')
local us = t[1] * 1000000 + t[2]
local now, ms = us, math.floor(us / 1000)
local last = call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2]
if last then us = math.max(us, last + 1) end
if call('ZADD', KEYS[4], 'NX', us, token) == 0 then return {} end
local look = last and MS_RESERVE or math.min(left + 1, 1000)
last = last and tonumber(last)
call('HSET', KEYS[3], 'w' .. token, ms .. ' ' .. ms + look .. ' ' .. ARGV[2])
-- The two keys of the queue expire unless they are renewed. To save commands, only the first waiter
-- that joins in each 30 s renews them. The 30 s begin at fixed times of the server's clock. If they
-- began at the last join, frequent joins would put off the renewal for ever. Then the keys would
-- expire although waiters are in the queue.
if not last or math.floor(now / 30000000) ~= math.floor(last / 30000000) then
  call('PEXPIRE', KEYS[3], math.max(left, MS_ALIVE) + MS_LINGER)
  call('PEXPIRE', KEYS[4], MS_ALIVE_LINGER)
end
if flag == NOTE_SIMPLE then call('SETRANGE', KEYS[2], 0, NOTE_MORE) end
return { look }
