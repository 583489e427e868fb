-- Ends an exclusive hold, and grants the name to the next caller of the same process if no waiter
-- is in the queue. If there are waiters, this file does nothing, and pass.lua runs next.
-- handover.lua lists KEYS and ARGV.
-- Returns the new fence, or the result of pass.lua.
do
  local successor = string.sub(ARGV[5], COUNTED_TOKEN)
  local more = string.byte(v) ~= BYTE_SIMPLE and call('EXISTS', H, Q, KEYS[5], KEYS[6]) or 0
  if more == 0 or call('EXISTS', Q, KEYS[5]) == 0 and not call('ZSCORE', KEYS[6], successor) then
    local fence = math.max(us, last + 1)
    if not heldAlone() or fence > us + 1000000 then return 0 end
    replace(successor, ARGV[6], true)
    local flag = more == 0 and NOTE_SIMPLE or NOTE_MORE
    call('SET', F, flag .. string.format(FORMAT_FENCE, fence) .. ARGV[5] .. NOTE_HELD_NOW .. ARGV[8], 'PX', ARGV[7])
    return fence
  end
end
