-- Takes shared holds of one name for several tokens, one token after the other. Stops at the first
-- token that gets no hold.
-- ARGV: 2 ttl  3 holder; then the tokens
-- Returns {G, fence, ms left, fence, ms left, …} for the tokens that got a hold.
local ttl, holder, out = tonumber(ARGV[2]), ARGV[3], { 'G' }
purge()
dispatch()
local released = redis.call('EXISTS', X) == 1
-- The variable inside becomes true when the script has made a grant. Readers share the name, so
-- each of the remaining tokens gets a hold with the same fence and the same end, without further
-- checks.
local inside = false
for i = 4, #ARGV do
  local token = ARGV[i]
  local e, fence = live(token)
  if e then
    if writing() then break end
    fence, e = (record(token) or note).fence, math.max(e, ms + ttl)
    add(token, true, e)
  elseif released and redis.call('ZSCORE', X, token) then
    break
  elseif inside then
    e, fence = ms + ttl, note.fence
    redis.call('ZADD', K, e, token)
    put({ token = token, shared = true, fence = fence, since = ms, state = NOTE_HELD, atleast = 0, holder = holder })
  elseif blocked(true) or redis.call('ZCARD', Q) > 0 or spent(true, 0) then
    break
  else
    e, inside = ms + ttl, true
    fence = grant(token, true, e, 0, holder, NOTE_HELD, 0)
  end
  out[#out + 1], out[#out + 2] = int(fence), int(e - ms)
end
finish()
return out
