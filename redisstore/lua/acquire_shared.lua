-- Takes shared holds of one name, one after the other, as long as they are granted.
-- ARGV: 2 ttl  3 holder; then the tokens
-- Returns {G, fence, ms left, fence, ms left, …} for the holds that were granted.
local ttl, holder, out = tonumber(ARGV[2]), ARGV[3], { 'G' }
purge()
dispatch()
for i = 4, #ARGV do
  local token = ARGV[i]
  local e, fence = live(token)
  if e then
    if writing() then break end
    fence, e = (record(token) or note).fence, math.max(e, ms + ttl)
    add(token, true, e)
  elseif blocked(true) or redis.call('ZCARD', Q) > 0 or redis.call('ZSCORE', X, token) or spent(true, 0) then
    break
  else
    e = ms + ttl
    fence = grant(token, true, e, 0, holder, NOTE_HELD, 0)
  end
  out[#out + 1], out[#out + 2] = int(fence), int(e - ms)
end
finish()
return out
