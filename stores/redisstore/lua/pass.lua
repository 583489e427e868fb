-- Ends an exclusive hold and hands the name over to the first waiter in the queue, if that waiter
-- wants an exclusive hold. handover.lua lists KEYS and ARGV.
--
-- Usually the first waiter belongs to another process. Then the script makes a reservation for the
-- waiter, and sends a message to it.
--
-- If ARGV 5 is the token of the first waiter, the waiter belongs to the process that runs this
-- script. Then the waiter gets a hold with the whole lease at once. It needs no message, because
-- the script returns the new fence.
--
-- Returns
--   2              if the name was handed over to a waiter of another process
--   the new fence  if the first waiter belongs to the process that runs this script
--   3              if the hold has ended, but the process of the first waiter is gone
--   0              if release.lua must run
if last >= f or not held() then return 0 end
local first = call('ZPOPMIN', Q)
local head, came = first[1], first[2]
if not head then return 0 end
local seen, chan, id, holder = string.match(call('HGET', H, 'w' .. head) or '', '^(%d+) %d+ (%x+) (%d+) [xp] 0 (.*)$')
if not seen or seen + MS_ALIVE < ms then -- it goes back to its place, because release.lua must run
  call('ZADD', Q, came, head)
  call('PEXPIRE', Q, MS_ALIVE_LINGER)
  return 0
end
call('HDEL', H, 'w' .. head)
local reserve = reservation(id)
local own = ARGV[5] and string.sub(ARGV[5], COUNTED_TOKEN) == head
if own then
  replace(head, ARGV[6])
  call('SET', F, NOTE_MORE .. f .. ARGV[5] .. NOTE_HELD_NOW .. ARGV[8], 'PX', ARGV[7])
else
  replace(head, reserve)
  call('SET', F, NOTE_MORE .. f .. string.format(FORMAT_LENGTH, #head) .. head .. NOTE_RESERVED_0 .. string.sub(f, 1, NOTE_TIME) .. holder, 'PX', ARGV[2] + reserve)
end
if not own and not publish(chan, 'h ' .. id .. ' ' .. f) then
  remove(head)
  call('SET', F, NOTE_MORE .. f, 'PX', ARGV[2])
  return 3
end

-- If the waiter that got the reservation never claims it, another waiter must notice when the
-- reservation ends. No message is needed if the others will look at the name anyway. When a waiter
-- has been in the queue for MS_RESERVE ms, it looks at the name. So if the first waiter joined less
-- than MS_RESERVE ms ago, all waiters behind it will soon look.
--
-- Otherwise the script asks some waiters to look, at most four times a second: the next three
-- waiters, the waiter in the middle of the queue, and the last waiter. The middle and the last
-- waiter are asked because the processes of the next three may be gone.
local recent = us - came < MS_RESERVE * 1000
if recent or math.floor(us / 250000) == math.floor(last / 250000) then return own and us or 2 end
local n = call('ZCARD', Q)
local ranks = { 0, 1, 2, math.floor(n / 2), n - 1 }
for i = 1, 5 do
  local other = ranks[i] < n and (i < 4 or ranks[i] > ranks[i - 1]) and call('ZRANGE', Q, ranks[i], ranks[i])[1]
  local chan, id = string.match(other and call('HGET', H, 'w' .. other) or '', '^%d+ %d+ (%x+) (%d+)')
  if chan then publish(chan, 'f ' .. id .. ' ' .. reserve - 10 + 10 * i) end
end
return own and us or 2
