-- Raises the fence of a live hold, and thereby all later fences.
-- ARGV: 2 token  3 fence
local token, fence = ARGV[2], tonumber(ARGV[3])
begin()
purge()
local e = live(token)
if not e then return lost(token) end
local r = record(token)
note.fence = math.max(note.fence, fence)
if r then
  r.fence = math.max(r.fence, fence)
  put(r)
end
finish()
return granted(r, e)
