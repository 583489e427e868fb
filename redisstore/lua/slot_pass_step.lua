-- slot_pass.lua calls handover.lua and pass.lua as the function one. Before pass.lua come three
-- more steps; ARGV.step says which one is meant.
--
--   holds   returns 1 if the token has this lock, whose lease has not ended, or else 0
--   ends    ends the hold of the token, and hands the lock to nobody
--   permit  ends the hold of the token, and reserves the lock for ARGV.to. Returns 1, or 2 if the
--           process of that waiter is gone, or 0 if release.lua must run.
if ARGV.step == 'holds' then return heldAlone() and 1 or 0 end
if ARGV.step == 'ends' then
  remove(token)
  call('SET', F, NOTE_MORE .. (last > f and last or f), 'PX', ARGV[2])
  return 1
end
if ARGV.step == 'permit' then
  if last >= f or not held() or call('EXISTS', Q) == 1 then return 0 end
  local to = ARGV.to
  replace(to.token, 'MS_RESERVE', true)
  call('SET', F, NOTE_MORE .. f .. string.format(FORMAT_LENGTH, #to.token) .. to.token
    .. NOTE_RESERVED_0 .. string.sub(f, 1, NOTE_TIME) .. to.holder, 'PX', ARGV[2])
  if publish(to.chan, 'q ' .. to.id .. ' ' .. f .. ' ' .. f .. ' ' .. ARGV.slot) then return 1 end
  remove(to.token)
  call('SET', F, NOTE_MORE .. f, 'PX', ARGV[2])
  return 2
end
