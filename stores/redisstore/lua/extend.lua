-- Extends a lease. With ttl 0, only checks the hold.
-- ARGV: 2 token  3 ttl
local token, ttl = ARGV[2], tonumber(ARGV[3])
begin()
purge()
local e = live(token)
if not e then return lost(token) end
local r = record(token)
if ttl > 0 and ms + ttl > e then
  e = ms + ttl
  add(token, not writing(), e)
  finish()
end
return granted(r, e, not writing()) -- PHP may have turned the exclusive hold into a shared hold
