-- This file is a part of the function onLock in slot_pass.lua. ARGV.step says what onLock does:
--
--   holds   returns 1 if the token has a live hold of this lock, or else 0
--   ends    ends the hold of the token, and hands the lock to nobody
--   permit  ends the hold of the token, and reserves the lock for the waiter ARGV.to. Returns 1, or
--           2 if the process of that waiter is gone, or 0 if release.lua must run.
--
-- Without ARGV.step, onLock does what pass.lua does. The text of pass.lua follows this file.
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
