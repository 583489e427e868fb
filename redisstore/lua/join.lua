-- Joins the queue of a name that is taken, to have it alone.
-- KEYS: 1 name 2 note 3 records 4 queue   ARGV: 1 token 2 channel, id, mode, above and holder
-- Answers when to look, in ms, or 0: ask wait.lua.
local call, token = redis.call, ARGV[1]
local left = call('PTTL', KEYS[1])
local flag = call('GETRANGE', KEYS[2], 0, 0)
if left <= 0 or flag == '' then return 0 end
local t = call('TIME')
local us = t[1] * 1000000 + t[2]
local ms = math.floor(us / 1000)
local last = call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2]
if last then us = math.max(us, last + 1) end
if call('ZADD', KEYS[4], 'NX', us, token) == 0 then return 0 end
local look = last and 500 or math.min(left + 1, 1000)
last = last and tonumber(last)
call('HSET', KEYS[3], 'w' .. token, ms .. ' ' .. ms + look .. ' ' .. ARGV[2])
if not last or us - last > 30000000 then -- who came last did this
  call('PEXPIRE', KEYS[3], math.max(left, 45000) + 60000)
  call('PEXPIRE', KEYS[4], 105000)
end
if flag ~= '!' then call('SETRANGE', KEYS[2], 0, '!') end
return look
